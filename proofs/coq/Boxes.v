(** Boxes on the faces of the cube (B1 to B4): products with all weights w such that w d is within r d of c d for every
    entry d. *)

From Coq Require Import Reals Lra Lia Arith List ZArith.
From Lpmert Require Import Vectors Selections Cores Conflicts.
Import ListNotations.
Open Scope R_scope.

Definition in_box (D : nat) (c r w : vec) : Prop := forall d, (d < D)%nat -> Rabs (w d - c d) <= r d.

(** The lead, which is the product at the centre, and the reach, by which the product varies in the box at most. *)
Definition lead (D : nat) (g c : vec) : R := dot D g c.
Definition reach (D : nat) (g r : vec) : R := sum D (fun d => Rabs (g d) * r d).

Lemma within : forall g w c r, Rabs (w - c) <= r -> g * c - Rabs g * r <= g * w.
Proof.
  intros g w c r H. assert (P := Rabs_pos g). assert (Q := Rabs_mult g (w - c)).
  assert (L : - Rabs (g * (w - c)) <= g * (w - c)) by (unfold Rabs; destruct (Rcase_abs (g * (w - c))); lra).
  assert (Rabs g * Rabs (w - c) <= Rabs g * r) by (apply Rmult_le_compat_l; lra). nra.
Qed.

Theorem product_in_box : forall D g c r w, in_box D c r w -> lead D g c - reach D g r <= dot D g w.
Proof.
  intros D g c r w H. unfold lead, reach, dot. rewrite <- sum_sub. apply sum_le.
  intros d Hd. apply within, H, Hd.
Qed.

(** The bound is tight: it is attained at a corner. *)
Theorem product_at_a_corner : forall D g c r, (forall d, (d < D)%nat -> 0 <= r d) ->
  exists w, in_box D c r w /\ dot D g w = lead D g c - reach D g r.
Proof.
  intros D g c r P. exists (fun d => if Rcase_abs (g d) then c d + r d else c d - r d). split.
  - intros d Hd. specialize (P d Hd). destruct (Rcase_abs (g d)); unfold Rabs; destruct (Rcase_abs _); lra.
  - unfold lead, reach, dot. rewrite <- sum_sub. apply sum_ext. intros d Hd.
    unfold Rabs. destruct (Rcase_abs (g d)); ring.
Qed.

Theorem order_in_box : forall D i j c r w, in_box D c r w ->
  reach D (fun d => j d - i d) r <= lead D (fun d => j d - i d) c -> dot D i w <= dot D j w.
Proof.
  intros D i j c r w H L. assert (P := product_in_box D (fun d => j d - i d) c r w H).
  assert (dot D (fun d => j d - i d) w = dot D j w - dot D i w); [|lra].
  unfold dot. rewrite <- sum_sub. apply sum_ext. intros. ring.
Qed.

(** The same for a computed lead p and a computed reach q with errors of at most e and f. *)
Theorem order_in_box_with_errors : forall D i j c r w p q e f, in_box D c r w ->
  Rabs (p - lead D (fun d => j d - i d) c) <= e -> Rabs (q - reach D (fun d => j d - i d) r) <= f ->
  e + f <= p - q -> dot D i w <= dot D j w.
Proof.
  intros D i j c r w p q e f H E F L. apply (order_in_box D i j c r w H).
  unfold Rabs in E, F. destruct (Rcase_abs (p - _)) in E; destruct (Rcase_abs (q - _)) in F; lra.
Qed.

(** The two halves of a box along an entry cover the box. *)
Definition half (v : vec) (p : nat) (a : R) : vec := fun d => if Nat.eqb d p then a else v d.

Theorem halves_cover : forall D c r w p, in_box D c r w ->
  in_box D (half c p (c p + r p / 2)) (half r p (r p / 2)) w \/
  in_box D (half c p (c p - r p / 2)) (half r p (r p / 2)) w.
Proof.
  intros D c r w p H. destruct (Rle_dec (c p) (w p)) as [L|L]; [left|right]; intros d Hd; unfold half;
    destruct (Nat.eqb_spec d p) as [->|]; auto; specialize (H p Hd); unfold Rabs in *;
    destruct (Rcase_abs (w p - c p)) in H; destruct (Rcase_abs _); lra.
Qed.

(** Every vector that is not 0 has a positive multiple on a face of the cube. *)
Theorem faces_cover : forall D w, (exists d, (d < D)%nat /\ w d <> 0) ->
  exists f t, (f < D)%nat /\ 0 < t /\ Rabs (t * w f) = 1 /\ forall d, (d < D)%nat -> Rabs (t * w d) <= 1.
Proof.
  assert (Largest : forall D w, (0 < D)%nat ->
    exists f, (f < D)%nat /\ forall d, (d < D)%nat -> Rabs (w d) <= Rabs (w f)).
  { induction D as [|D IH]; intros w P; [lia|]. destruct D as [|D].
    - exists 0%nat. split; [lia|]. intros d Hd. replace d with 0%nat by lia. lra.
    - destruct (IH w ltac:(lia)) as [f [Hf L]]. destruct (Rle_dec (Rabs (w (S D))) (Rabs (w f))) as [M|M].
      + exists f. split; [lia|]. intros d Hd. destruct (Nat.eq_dec d (S D)) as [->|]; auto. apply L. lia.
      + exists (S D). split; [lia|]. intros d Hd. destruct (Nat.eq_dec d (S D)) as [->|]; [lra|].
        assert (Rabs (w d) <= Rabs (w f)) by (apply L; lia). lra. }
  intros D w [e [He N]]. destruct (Largest D w ltac:(lia)) as [f [Hf L]].
  assert (0 < Rabs (w f)) by (assert (P := Rabs_pos_lt (w e) N); specialize (L e He); lra).
  assert (T : 0 < / Rabs (w f)) by now apply Rinv_0_lt_compat.
  exists f, (/ Rabs (w f)). repeat split; auto.
  - rewrite Rabs_mult, (Rabs_right (/ _)) by lra. field. lra.
  - intros d Hd. rewrite Rabs_mult, (Rabs_right (/ _)) by lra.
    replace 1 with (/ Rabs (w f) * Rabs (w f)) by (field; lra). apply Rmult_le_compat_l; auto. lra.
Qed.

(** The sides of a box with larger radii q have positive products with all weights of the box, and with their positive
    multiples. *)
Theorem inside_the_wider_box : forall D c r q w f s t d, in_box D c r w -> (d < D)%nat -> r d < q d ->
  s * s = 1 -> w f = s -> 0 < t ->
  0 < s * (c d + q d) * (t * w f) - t * w d /\ 0 < t * w d - s * (c d - q d) * (t * w f).
Proof.
  intros D c r q w f s t d H Hd Q S F T. specialize (H d Hd).
  assert (L : c d - r d <= w d <= c d + r d) by (unfold Rabs in H; destruct (Rcase_abs (w d - c d)); lra).
  rewrite F. split.
  - replace (s * (c d + q d) * (t * s) - t * w d) with (t * ((s * s) * (c d + q d) - w d)) by ring.
    rewrite S. apply Rmult_lt_0_compat; lra.
  - replace (t * w d - s * (c d - q d) * (t * s)) with (t * (w d - (s * s) * (c d - q d))) by ring.
    rewrite S. apply Rmult_lt_0_compat; lra.
Qed.

Lemma mixture_in_box : forall D g h a b c r w, in_box D c r w ->
  reach D (fun d => a * g d + b * h d) r <= lead D (fun d => a * g d + b * h d) c ->
  0 <= a * dot D g w + b * dot D h w.
Proof.
  intros D g h a b c r w H L. assert (P := product_in_box D (fun d => a * g d + b * h d) c r w H).
  assert (E : dot D (fun d => a * g d + b * h d) w = a * dot D g w + b * dot D h w); [|lra].
  unfold dot. rewrite <- !sum_scale, <- sum_add. apply sum_ext. intros. ring.
Qed.

(** If a mixture of two gains is nowhere negative in the box, then at every point of the box one of the gains is not
    negative. *)
Theorem one_of_two_in_box : forall D g h a b c r w, 0 <= a -> 0 <= b -> 0 < a + b -> in_box D c r w ->
  reach D (fun d => a * g d + b * h d) r <= lead D (fun d => a * g d + b * h d) c ->
  0 <= dot D g w \/ 0 <= dot D h w.
Proof.
  intros D g h a b c r w A B AB H L.
  apply (one_of_two_numbers a b); auto. now apply mixture_in_box with (c := c) (r := r).
Qed.

(** B4 for lists with several cheapest hypotheses. Such a hypothesis i leads a by at most e. This e is subtracted at
    feature f, whose weight is the same in the whole box. *)
Section Several.
  Variable D f : nat.
  Variable c r : vec.
  Variable sign : R.
  Hypothesis f_counts : (f < D)%nat.
  Hypothesis f_fixed : r f = 0 /\ c f = sign /\ sign * sign = 1.

  Definition ahead (a b : vec) (e : R) : vec := fun d => b d - a d - single f (e * sign) d.

  Lemma weight_of_face : forall w, in_box D c r w -> w f = sign.
  Proof.
    intros w H. destruct f_fixed as [R0 [C0 _]]. specialize (H f f_counts). rewrite R0, C0 in H.
    unfold Rabs in H. destruct (Rcase_abs (w f - sign)); lra.
  Qed.

  Theorem several_behind : forall w a b i e, in_box D c r w ->
    lead D (fun d => i d - a d) c + reach D (fun d => i d - a d) r <= e ->
    0 <= dot D (ahead a b e) w -> dot D i w <= dot D b w.
  Proof.
    intros w a b i e H E G.
    assert (P := product_in_box D (fun d => a d - i d) c r w H).
    assert (L : lead D (fun d => a d - i d) c = - lead D (fun d => i d - a d) c).
    { unfold lead. rewrite <- (Rmult_1_l (dot D (fun d => i d - a d) c)), Ropp_mult_distr_l, <- dot_times.
      apply dot_same. intros d _. unfold times. ring. }
    assert (Q : reach D (fun d => a d - i d) r = reach D (fun d => i d - a d) r).
    { apply sum_ext. intros d _. now rewrite Rabs_minus_sym. }
    assert (M : dot D (fun d => a d - i d) w = dot D a w - dot D i w) by apply dot_minus.
    assert (F : dot D (single f (e * sign)) w = e).
    { transitivity (sum D (single f e)); [|now apply sum_single].
      apply sum_ext. intros d _. unfold single. destruct (Nat.eqb_spec d f) as [->|]; [|ring].
      rewrite (weight_of_face w H). destruct f_fixed as [_ [_ S]]. rewrite Rmult_assoc, S. ring. }
    assert (T : dot D (ahead a b e) w = dot D b w - dot D a w - dot D (single f (e * sign)) w).
    { rewrite <- !dot_minus. reflexivity. }
    lra.
  Qed.

  Variable size : nat -> nat.
  Variable feature : nat -> nat -> vec.
  Variable cost : nat -> nat -> Z.
  Variable alive : nat -> nat -> Prop.  (* the hypotheses that may win in the box: the survivors *)
  Variable level : nat -> nat -> Z.
  Variable owner rank : nat -> nat.     (* of each item: its list, and the level of the list that is charged *)

  (** g is the lead of a hypothesis that costs at least what item v wants over a vector a, minus e at feature f. Cheaper
      hypotheses lead a by at most e. *)
  Definition box_gain (v : nat) (g : vec) : Prop :=
    exists a j e, (j < size (owner v))%nat /\ (wanted level owner rank v <= cost (owner v) j)%Z /\
      g = ahead a (feature (owner v) j) e /\
      forall i, alive (owner v) i -> (cost (owner v) i < wanted level owner rank v)%Z ->
        lead D (fun d => feature (owner v) i d - a d) c + reach D (fun d => feature (owner v) i d - a d) r <= e.

  Theorem box_gain_beats : forall w v g h, in_box D c r w -> box_gain v g -> 0 <= dot D g w ->
    alive (owner v) h -> strictly_best D size feature w (owner v) h -> (wanted level owner rank v <= cost (owner v) h)%Z.
  Proof.
    intros w v g h H [a [j [e [Hj [Cj [-> E]]]]]] G A B.
    destruct (Z_lt_le_dec (cost (owner v) h) (wanted level owner rank v)) as [Less|]; auto. exfalso.
    assert (L : dot D (feature (owner v) j) w < dot D (feature (owner v) h) w).
    { apply B; auto. intros ->. lia. }
    assert (K := several_behind w a (feature (owner v) j) (feature (owner v) h) e H (E h A Less) G). lra.
  Qed.

  Definition in_box_conflict : list nat -> nat * nat -> Prop :=
    conflict box_gain (fun a b g h => reach D (fun d => a * g d + b * h d) r <= lead D (fun d => a * g d + b * h d) c).

  (** B4: a lower bound on the cost of every selection that weights of the box decode to. A list may be charged at each
      of its levels. If only its least cost and the next one count, it has one level. *)
  Theorem box_conflicts_add_up : forall w part items x (pairs : list (nat * nat)),
    in_box D c r w -> decodes D size feature w part x -> NoDup items ->
    (forall v, In v items -> In (owner v) part) ->
    (forall u v, In u items -> In v items -> owner u = owner v -> rank u = rank v -> u = v) ->
    (forall s i, (level s i <= level s (S i))%Z) ->
    (forall s, In s part -> alive s (x s)) ->
    (forall s i, In s part -> alive s i -> (level s 0%nat <= cost s i)%Z) ->
    (forall pair, In pair pairs -> in_box_conflict items pair) ->
    (total (fun s => level s 0%nat) part +
     charged (height level owner rank) (map (fun pair => [fst pair; snd pair]) pairs) <=
     total (fun s => cost s (x s)) part)%Z.
  Proof.
    intros w part items x pairs H [V B] N O Only Rise A L C. apply levels_add_up with (items := items); auto.
    intros u v I. apply (one_is_paid box_gain _ items u v (fun g => dot D g w)
      (fun v => (wanted level owner rank v <= cost (owner v) (x (owner v)))%Z)) with (3 := C _ I).
    - intros a b g h M. now apply mixture_in_box with (c := c) (r := r).
    - intros i g Ii G P. apply (box_gain_beats w i g (x (owner i))); auto.
  Qed.
End Several.
