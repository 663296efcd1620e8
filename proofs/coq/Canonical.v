(** The canonical form keeps the attainable losses: dropped features (P1), folded lists (P2), merged
    lists of two (P3) and losses in fixed point (P4). *)

From Coq Require Import Reals Lra Lia List.
From Lpmert Require Import Vectors Selections.
Import ListNotations.
Open Scope R_scope.

(** ** P1: dropped features *)

(** If feature k is a combination of other features within the lists, moving its weight to these features changes
    no comparison. *)
Theorem dropped_feature : forall D k (a : nat -> R) (u v w : vec),
  (k < D)%nat -> a k = 0 ->
  u k - v k = sum D (fun d => a d * (u d - v d)) ->
  let w' := fun d => if Nat.eqb d k then 0 else w d + a d * w k in
  dot D (minus u v) w' = dot D (minus u v) w.
Proof.
  intros D k a u v w Hk Ha E w'.
  assert (S : dot D (minus u v) (minus w' w) = 0).
  2:{ rewrite dot_minus_r in S. lra. }
  unfold dot, minus.
  rewrite (sum_ext D _ (fun d => w k * (a d * (u d - v d)) - single k ((u k - v k) * w k) d)).
  - rewrite sum_sub, sum_scale, <- E, sum_single by auto. ring.
  - intros d Hd. unfold w', single. destruct (Nat.eqb_spec d k) as [->|]; rewrite ?Ha; ring.
Qed.

(** ** P2: folded lists

    Weights of an open cell can be moved off finitely many hyperplanes without leaving the cell. So a list whose
    hypotheses all cost the same can be left out. *)
Lemma off_the_hyperplanes : forall D m b w n (d : nat -> vec), open_cell D m b w ->
  (forall i, (i < n)%nat -> ~ same D (d i) zero) ->
  exists w', open_cell D m b w' /\ forall i, (i < n)%nat -> dot D (d i) w' <> 0.
Proof.
  intros D m b w n d O N.
  (* with the signs of the products, the hyperplanes that w has been moved off are rows of a cell too *)
  assert (H : exists w' (sign : nat -> R), open_cell D m b w' /\ forall i, (i < n)%nat -> 0 < dot D (times (sign i) (d i)) w').
  { induction n as [|n IH].
    - exists w, (fun _ => 1). split; auto. intros i Hi. lia.
    - destruct IH as [w' [sign [O' P]]]; [intros; apply N; lia|].
      assert (Dn : 0 < dot D (d n) (d n)).
      { destruct (Rle_lt_or_eq_dec 0 _ (dot_self_nonneg D (d n))) as [|E]; auto.
        exfalso. apply (N n); [lia|]. apply dot_self_zero. auto. }
      assert (exists w2, open_cell D m b w2 /\ (forall i, (i < n)%nat -> 0 < dot D (times (sign i) (d i)) w2) /\
                dot D (d n) w2 <> 0) as [w2 [O2 [P2 Q]]].
      { destruct (Req_dec (dot D (d n) w') 0) as [Z|Z]; [|exists w'; auto].
        destruct (small_step D (m + n) (fun k => if lt_dec k m then b k else times (sign (k - m)%nat) (d (k - m)%nat)) w' (d n))
          as [e [E He]].
        { intros k Hk. destruct (lt_dec k m); auto. apply P. lia. }
        exists (plus w' (times e (d n))). assert (C := He e ltac:(lra)). split; [|split].
        - intros k Hk. specialize (C k ltac:(lia)). simpl in C.
          destruct (lt_dec k m); [auto | lia].
        - intros i Hi. specialize (C (m + i)%nat ltac:(lia)). simpl in C.
          destruct (lt_dec (m + i) m); [lia|]. now replace (m + i - m)%nat with i in C by lia.
        - rewrite dot_plus_r, dot_times_r, Z. nra. }
      exists w2, (fun i => if Nat.eqb i n then dot D (d n) w2 else sign i). split; auto. intros i Hi.
      destruct (Nat.eqb_spec i n) as [->|]; [rewrite dot_times; nra | apply P2; lia]. }
  destruct H as [w' [sign [O' P]]]. exists w'. split; auto.
  intros i Hi Z. specialize (P i Hi). rewrite dot_times, Z in P. lra.
Qed.

Lemma off_the_hyperplanes_of_pairs : forall D m b w (feature : nat -> vec) n, open_cell D m b w ->
  (forall i j, (i < n)%nat -> (j < n)%nat -> i <> j -> ~ same D (feature i) (feature j)) ->
  exists w', open_cell D m b w' /\
    forall i j, (i < n)%nat -> (j < n)%nat -> i <> j -> dot D (feature i) w' <> dot D (feature j) w'.
Proof.
  intros D m b w feature n O N.
  assert (H : forall l : list (nat * nat),
            (forall p, In p l -> (fst p < n)%nat /\ (snd p < n)%nat /\ fst p <> snd p) ->
            exists w', open_cell D m b w' /\ forall p, In p l -> dot D (minus (feature (fst p)) (feature (snd p))) w' <> 0).
  { intros l L.
    destruct (off_the_hyperplanes D m b w (length l)
      (fun i => let p := nth i l (0, 0)%nat in minus (feature (fst p)) (feature (snd p))) O) as [w' [O' Q]].
    - intros i Hi Z. assert (I : In (nth i l (0, 0)%nat) l) by (apply nth_In; auto).
      destruct (L _ I) as [L1 [L2 L3]]. apply (N _ _ L1 L2 L3). intros d Hd. specialize (Z d Hd). simpl in Z.
      unfold minus, zero in Z. lra.
    - exists w'. split; auto. intros p I. destruct (In_nth l p (0, 0)%nat I) as [i [Hi E]].
      specialize (Q i Hi). simpl in Q. now rewrite E in Q. }
  destruct (H (filter (fun p => negb (Nat.eqb (fst p) (snd p))) (list_prod (seq 0 n) (seq 0 n)))) as [w' [O' Q]].
  - intros [i j] I. apply filter_In in I. destruct I as [I E]. apply in_prod_iff in I. rewrite !in_seq in I. simpl in *.
    destruct (Nat.eqb_spec i j); simpl in E; [discriminate | lia].
  - exists w'. split; auto. intros i j Hi Hj Nij E.
    apply (Q (i, j)).
    + apply filter_In. split; [apply in_prod_iff; rewrite !in_seq; lia|]. simpl.
      destruct (Nat.eqb_spec i j); auto.
    + simpl. rewrite dot_minus, E. ring.
Qed.

(** A finite list whose scores are all different has a strict winner. *)
Lemma winner : forall D (feature : nat -> nat -> vec) s w n, (0 < n)%nat ->
  (forall i j, (i < n)%nat -> (j < n)%nat -> i <> j -> dot D (feature s i) w <> dot D (feature s j) w) ->
  exists h, (h < n)%nat /\ forall j, (j < n)%nat -> j <> h -> dot D (feature s j) w < dot D (feature s h) w.
Proof.
  intros D feature s w. induction n as [|n IH]; intros Hn N; [lia|].
  destruct (Nat.eq_dec n 0) as [->|Pos].
  - exists 0%nat. split; auto. intros j Hj Nj. lia.
  - destruct IH as [h [Hh B]]; [lia | intros; apply N; lia|].
    destruct (Rlt_dec (dot D (feature s n) w) (dot D (feature s h) w)) as [L|L].
    + exists h. split; [lia|]. intros j Hj Nj. destruct (Nat.eq_dec j n) as [->|]; auto. apply B; lia.
    + assert (M : dot D (feature s n) w <> dot D (feature s h) w) by (apply N; lia).
      exists n. split; [lia|]. intros j Hj Nj. destruct (Nat.eq_dec j h) as [->|]; [lra|].
      specialize (B j ltac:(lia) ltac:(auto)). lra.
Qed.

(** P2: a selection that is attainable on the other lists, within limits a_k.w > 0, is attainable together with
    some choice of a further list whose features differ. *)
Theorem folded_list : forall D limits (a : nat -> vec) size feature part s x, ~ In s part -> (0 < size s)%nat ->
  (forall i j, (i < size s)%nat -> (j < size s)%nat -> i <> j -> ~ same D (feature s i) (feature s j)) ->
  attainable D (open_cell D limits a) size feature part x ->
  exists h, attainable D (open_cell D limits a) size feature (s :: part) (replace x s h).
Proof.
  intros D limits a size feature part s x Ns Hs Distinct [w [R [V B]]].
  (* the comparisons of the part, and the limits, as rows of one cell *)
  assert (exists m b, open_cell D m b w /\ forall w', open_cell D m b w' ->
            open_cell D limits a w' /\ forall t, In t part -> strictly_best D size feature w' t (x t)) as [m [b [O K]]].
  { clear Ns. induction part as [|t part IH].
    - exists limits, a. split; auto. intros w' O. split; auto. intros t [].
    - destruct IH as [m [b [O K]]]; [intros u Iu; apply V; right; auto | intros u Iu; apply B; right; auto |].
      pose (other := fun k => if lt_dec k (x t) then k else S k).
      pose (row := fun k => minus (feature t (x t)) (feature t (other k))).
      assert (Vt := V t (or_introl eq_refl)). assert (Bt := B t (or_introl eq_refl)).
      exists (m + (size t - 1))%nat, (fun k => if lt_dec k m then b k else row (k - m)%nat). split.
      + intros k Hk. destruct (lt_dec k m) as [|L]; [auto|].
        unfold row. rewrite dot_minus. specialize (Bt (other (k - m)%nat)).
        unfold other in *. destruct (lt_dec (k - m) (x t)); specialize (Bt ltac:(lia) ltac:(lia)); lra.
      + intros w' O'. destruct (K w') as [K1 K2].
        { intros k Hk. specialize (O' k ltac:(lia)). simpl in O'. destruct (lt_dec k m); [auto | lia]. }
        split; auto. intros u [<-|Iu]; auto. intros j Hj Nj.
        assert (exists k, (k < size t - 1)%nat /\ other k = j) as [k [Hk E]].
        { destruct (lt_dec j (x t)).
          - exists j. unfold other. destruct (lt_dec j (x t)); [split; lia | lia].
          - exists (j - 1)%nat. unfold other. destruct (lt_dec (j - 1) (x t)); split; lia. }
        specialize (O' (m + k)%nat ltac:(lia)). simpl in O'. destruct (lt_dec (m + k) m); [lia|].
        replace (m + k - m)%nat with k in O' by lia. unfold row in O'. rewrite dot_minus, E in O'. lra. }
  (* move w off the hyperplanes between any two hypotheses of the further list *)
  destruct (off_the_hyperplanes_of_pairs D m b w (feature s) (size s) O Distinct) as [w' [O' Q]].
  destruct (K w' O') as [K1 K2].
  destruct (winner D feature s w' (size s) Hs Q) as [h [Hh W]].
  exists h, w'. split; auto. split.
  - intros t [<-|It]; [now rewrite replace_here|]. rewrite replace_elsewhere by (intros ->; contradiction). auto.
  - intros t [<-|It].
    + rewrite replace_here. exact W.
    + rewrite replace_elsewhere by (intros ->; contradiction). auto.
Qed.

(** ** P3: merged lists of two *)

(** If a - b = f (c - d) with f > 0, weights prefer a to b exactly if they prefer c to d. *)
Theorem parallel_pairs : forall D (a b c e w : vec) f,
  0 < f -> same D (minus a b) (times f (minus c e)) ->
  (dot D b w < dot D a w <-> dot D e w < dot D c w) /\ (dot D a w < dot D b w <-> dot D c w < dot D e w).
Proof.
  intros D a b c e w f Hf S. assert (E := dot_same D _ _ w S).
  rewrite dot_minus, dot_times, dot_minus in E. split; split; intros; nra.
Qed.

(** ** P4: losses in fixed point *)

Section Rounding.
  Open Scope R_scope.

  (** If each loss is off by at most half a unit, the cost of a selection of S lists is off by at most S / 2 units. *)
  Theorem rounded_sum : forall n (loss whole : nat -> R) unit,
    (forall s, (s < n)%nat -> Rabs (loss s - whole s) <= unit / 2) ->
    Rabs (sum n loss - sum n whole) <= INR n * (unit / 2).
  Proof.
    induction n as [|n IH]; intros loss whole unit H.
    - simpl. rewrite Rminus_0_r, Rabs_R0. lra.
    - rewrite S_INR. simpl sum.
      assert (A := IH loss whole unit (fun s L => H s (Nat.lt_lt_succ_r _ _ L))).
      assert (B := H n (Nat.lt_succ_diag_r n)).
      unfold Rabs in *. destruct (Rcase_abs (sum n loss - sum n whole)), (Rcase_abs (loss n - whole n)),
        (Rcase_abs (sum n loss + loss n - (sum n whole + whole n))); lra.
  Qed.

  (** A selection that is least in fixed point costs at most S units more than the least one. *)
  Theorem rounded_optimum : forall n (best other best' other' : nat -> R) unit,
    (forall s, (s < n)%nat -> Rabs (best s - best' s) <= unit / 2) ->
    (forall s, (s < n)%nat -> Rabs (other s - other' s) <= unit / 2) ->
    sum n best' <= sum n other' -> sum n best <= sum n other + INR n * unit.
  Proof.
    intros n best other best' other' unit A B L.
    assert (P := rounded_sum n best best' unit A). assert (Q := rounded_sum n other other' unit B).
    unfold Rabs in *. destruct (Rcase_abs (sum n best - sum n best')), (Rcase_abs (sum n other - sum n other')); lra.
  Qed.
End Rounding.
