(** Conflicts of two lists (K7, and the parts that B4 shares with it): one of the two lists pays more than its least
    cost. *)

From Coq Require Import Reals Lra Lia Arith List ZArith.
From Lpmert Require Import Vectors Selections Cores Cones.
Import ListNotations.
Open Scope R_scope.

(** ** Shared by cones and boxes *)

Lemma one_of_two_numbers : forall a b p q, 0 <= a -> 0 <= b -> 0 < a + b -> 0 <= a * p + b * q -> 0 <= p \/ 0 <= q.
Proof.
  intros a b p q A B AB S. destruct (Rle_dec 0 p) as [|P]; [left; auto|].
  destruct (Rle_dec 0 q) as [|Q]; [right; auto|]. exfalso.
  destruct (Rle_lt_or_eq_dec 0 a A) as [Pa|<-]; [|nra].
  assert (a * p < 0) by nra. assert (b * q <= 0) by nra. lra.
Qed.

(** Two items are in conflict if some mixture of their gains satisfies [mixed]. *)
Definition conflict {G : Type} (gain : nat -> G -> Prop) (mixed : R -> R -> G -> G -> Prop) (items : list nat)
    (pair : nat * nat) : Prop :=
  In (fst pair) items /\ In (snd pair) items /\ exists a b g h, 0 <= a /\ 0 <= b /\ 0 < a + b /\
    gain (fst pair) g /\ gain (snd pair) h /\ mixed a b g h.

(** value: the product of a gain with the weights. An item is paid if the value of one of its gains is not negative. *)
Lemma one_is_paid : forall {G : Type} (gain : nat -> G -> Prop) (mixed : R -> R -> G -> G -> Prop) items u v
    (value : G -> R) (paid : nat -> Prop),
  (forall a b g h, mixed a b g h -> 0 <= a * value g + b * value h) ->
  (forall i g, In i items -> gain i g -> 0 <= value g -> paid i) ->
  conflict gain mixed items (u, v) -> In u items /\ In v items /\ (paid u \/ paid v).
Proof.
  intros G gain mixed items u v value paid M P [Iu [Iv [a [b [g [h [A [B [AB [Gu [Gv H]]]]]]]]]]]. simpl in *.
  split; [auto|split; [auto|]].
  destruct (one_of_two_numbers a b (value g) (value h) A B AB (M _ _ _ _ H)); [left | right]; eauto.
Qed.

(** Levels of cost: item v stands for the step of the list [owner v] from level [rank v] to level [S (rank v)]. *)
Section Levels.
  Variable cost : nat -> nat -> Z.
  Variable level : nat -> nat -> Z.
  Variable owner rank : nat -> nat.
  Hypothesis levels_rise : forall s i, (level s i <= level s (S i))%Z.

  Definition wanted (v : nat) : Z := level (owner v) (S (rank v)).
  Definition height (v : nat) : Z := (wanted v - level (owner v) (rank v))%Z.

  (** The steps between levels that are not above a cost add up to at most this cost minus the first level. *)
  Lemma rises_below : forall (k : nat -> Z) c n l, (forall i, (k i <= k (S i))%Z) -> (k 0%nat <= c)%Z -> NoDup l ->
    (forall i, In i l -> (i < n)%nat /\ (k (S i) <= c)%Z) ->
    (total (fun i => (k (S i) - k i)%Z) l <= Z.min c (k n) - k 0%nat)%Z.
  Proof.
    intros k c. induction n as [|n IH]; intros l Up C N B.
    - destruct l as [|i l]; [simpl; lia|]. destruct (B i (or_introl eq_refl)). lia.
    - specialize (Up n) as Un. destruct (in_dec Nat.eq_dec n l) as [I|I].
      + destruct (B n I) as [_ Bn]. destruct (in_split n l I) as [l1 [l2 E]]. subst l.
        destruct (NoDup_remove l1 l2 n N) as [N' O].
        assert (H : (total (fun i => (k (S i) - k i)%Z) (l1 ++ l2) <= Z.min c (k n) - k 0%nat)%Z).
        { apply IH; auto. intros i Hi. assert (i <> n) by (intros ->; contradiction).
          destruct (B i); [apply in_app_iff in Hi; apply in_app_iff; simpl; tauto|]. split; [lia | auto]. }
        rewrite total_app in *. simpl. lia.
      + assert (H : (total (fun i => (k (S i) - k i)%Z) l <= Z.min c (k n) - k 0%nat)%Z); [|lia].
        apply IH; auto. intros i Hi. destruct (B i Hi). assert (i <> n) by (intros ->; contradiction). split; [lia | auto].
  Qed.

  Lemma total_of_owners : forall (f : nat -> Z) part items, (forall v, (0 <= f v)%Z) ->
    (forall v, In v items -> In (owner v) part) ->
    (total f items <= total (fun s => total f (filter (fun v => Nat.eqb (owner v) s) items)) part)%Z.
  Proof.
    intros f part items P. induction items as [|v items IH]; intros O; simpl.
    - apply total_nonneg. intros. lia.
    - specialize (IH (fun u I => O u (or_intror I))). specialize (O v (or_introl eq_refl)).
      pose (g := fun s => total f (filter (fun u => Nat.eqb (owner u) s) items)). fold g in IH.
      enough (total g part + f v <=
              total (fun s => total f (if Nat.eqb (owner v) s
                                       then v :: filter (fun u => Nat.eqb (owner u) s) items
                                       else filter (fun u => Nat.eqb (owner u) s) items)) part)%Z by lia.
      assert (Each : forall s, total f (if Nat.eqb (owner v) s
                                        then v :: filter (fun u => Nat.eqb (owner u) s) items
                                        else filter (fun u => Nat.eqb (owner u) s) items) =
                               (g s + if Nat.eqb (owner v) s then f v else 0)%Z).
      { intros s. unfold g. destruct (Nat.eqb (owner v) s); simpl; lia. }
      rewrite (total_ext _ _ _ (fun s _ => Each s)), total_add. apply Zplus_le_compat_l.
      clear -P O. induction part as [|s part IH]; [destruct O|]. simpl.
      assert (0 <= total (fun s => if Nat.eqb (owner v) s then f v else 0%Z) part)%Z.
      { apply total_nonneg. intros t _. specialize (P v). destruct (Nat.eqb (owner v) t); lia. }
      destruct (Nat.eqb_spec (owner v) s) as [|Other]; [lia|]. destruct O as [E|O]; [congruence|]. specialize (IH O). lia.
  Qed.

  (** If a selection pays one item of every pair, it costs at least the first levels of all lists plus all charges. *)
  Theorem levels_add_up : forall part items x (pairs : list (nat * nat)),
    NoDup items -> (forall v, In v items -> In (owner v) part) ->
    (forall u v, In u items -> In v items -> owner u = owner v -> rank u = rank v -> u = v) ->
    (forall s, In s part -> (level s 0%nat <= cost s (x s))%Z) ->
    (forall u v, In (u, v) pairs -> In u items /\ In v items /\
       ((wanted u <= cost (owner u) (x (owner u)))%Z \/ (wanted v <= cost (owner v) (x (owner v)))%Z)) ->
    (total (fun s => level s 0%nat) part + charged height (map (fun pair => [fst pair; snd pair]) pairs) <=
     total (fun s => cost s (x s)) part)%Z.
  Proof.
    intros part items x pairs N O Only L C.
    assert (Up : forall v, (0 <= height v)%Z).
    { intros v. unfold height, wanted. specialize (levels_rise (owner v) (rank v)). lia. }
    pose (paid := filter (fun v => (wanted v <=? cost (owner v) (x (owner v)))%Z) items).
    assert (Np : NoDup paid) by now apply NoDup_filter.
    assert (Charged : (charged height (map (fun pair => [fst pair; snd pair]) pairs) <= total height paid)%Z).
    { apply charges_are_paid; auto. intros core I. apply in_map_iff in I. destruct I as [[u v] [<- I]]. simpl.
      destruct (C u v I) as [Iu [Iv [P|P]]]; [exists u | exists v]; (split; [auto|]);
        apply filter_In; split; auto; now apply Z.leb_le. }
    assert (Owners := total_of_owners height part paid Up
      (fun v I => O v (proj1 (proj1 (filter_In _ _ _) I)))).
    enough (total (fun s => level s 0%nat) part +
            total (fun s => total height (filter (fun v => Nat.eqb (owner v) s) paid)) part <=
            total (fun s => cost s (x s)) part)%Z by lia.
    rewrite <- total_add. apply total_le. intros s Is.
    assert (Own : forall v, In v (filter (fun v => Nat.eqb (owner v) s) paid) ->
              owner v = s /\ In v items /\ (level s (S (rank v)) <= cost s (x s))%Z).
    { intros v I. apply filter_In in I. destruct I as [I E]. apply Nat.eqb_eq in E. apply filter_In in I.
      destruct I as [I P]. apply Z.leb_le in P. unfold wanted in P. rewrite E in P. auto. }
    assert (Ns : NoDup (filter (fun v => Nat.eqb (owner v) s) paid)) by now apply NoDup_filter.
    revert Own Ns. generalize (filter (fun v => Nat.eqb (owner v) s) paid) as l. intros l Own Ns.
    assert (Ranks : total height l = total (fun i => (level s (S i) - level s i)%Z) (map rank l)).
    { clear Ns. induction l as [|v l IH]; auto. simpl. rewrite IH; [|intros u Iu; apply Own; now right].
      destruct (Own v (or_introl eq_refl)) as [E _]. unfold height, wanted. now rewrite E. }
    assert (Nr : NoDup (map rank l)).
    { clear Ranks. induction l as [|v l IH]; simpl; constructor; inversion Ns as [|? ? Out Ns']; subst.
      - intros I. apply in_map_iff in I. destruct I as [u [E I]]. apply Out.
        destruct (Own v (or_introl eq_refl)) as [Ev [Iv _]]. destruct (Own u (or_intror I)) as [Eu [Iu _]].
        replace v with u; auto. apply Only; congruence.
      - apply IH; auto. intros u Iu. apply Own. now right. }
    rewrite Ranks.
    assert (H := rises_below (level s) (cost s (x s)) (S (list_max (map rank l))) (map rank l)
      (levels_rise s) (L s Is) Nr).
    enough (total (fun i => (level s (S i) - level s i)%Z) (map rank l) <=
            Z.min (cost s (x s)) (level s (S (list_max (map rank l)))) - level s 0%nat)%Z by lia.
    apply H. intros i I. split.
    - assert (M := proj1 (list_max_le (map rank l) (list_max (map rank l))) (le_n _)).
      rewrite Forall_forall in M. specialize (M i I). lia.
    - apply in_map_iff in I. destruct I as [v [<- I]]. now destruct (Own v I) as [_ [_ P]].
  Qed.
End Levels.

(** ** Cones *)

Lemma mixture : forall n (x g h : nat -> R) a b,
  (forall k, (k < n)%nat -> 0 <= x k) -> (forall k, (k < n)%nat -> 0 <= a * g k + b * h k) ->
  0 <= a * sum n (fun k => x k * g k) + b * sum n (fun k => x k * h k).
Proof.
  intros n x g h a b X M. rewrite <- !sum_scale, <- sum_add. apply sum_nonneg. intros k Hk.
  replace (a * (x k * g k) + b * (x k * h k)) with (x k * (a * g k + b * h k)) by ring.
  apply Rmult_le_pos; auto.
Qed.

(** If the mixture of two functions on the rays is nowhere negative, then at every point of the cone one of the two is
    not negative. *)
Theorem one_of_two : forall n (x g h : nat -> R) a b, 0 <= a -> 0 <= b -> 0 < a + b ->
  (forall k, (k < n)%nat -> 0 <= x k) -> (forall k, (k < n)%nat -> 0 <= a * g k + b * h k) ->
  0 <= sum n (fun k => x k * g k) \/ 0 <= sum n (fun k => x k * h k).
Proof.
  intros n x g h a b A B AB X M. apply (one_of_two_numbers a b); auto. now apply mixture.
Qed.

(** The same for computed values p and q with errors of at most e and f. *)
Theorem one_of_two_with_errors : forall n (x g h p q e f : nat -> R) a b, 0 <= a -> 0 <= b -> 0 < a + b ->
  (forall k, (k < n)%nat -> 0 <= x k) ->
  (forall k, (k < n)%nat -> Rabs (p k - g k) <= e k /\ Rabs (q k - h k) <= f k) ->
  (forall k, (k < n)%nat -> a * e k + b * f k <= a * p k + b * q k) ->
  0 <= sum n (fun k => x k * g k) \/ 0 <= sum n (fun k => x k * h k).
Proof.
  intros n x g h p q e f a b A B AB X E M. apply (one_of_two n x g h a b); auto.
  intros k Hk. specialize (M k Hk). destruct (E k Hk) as [E1 E2].
  assert (p k - e k <= g k) by (unfold Rabs in E1; destruct (Rcase_abs (p k - g k)); lra).
  assert (q k - f k <= h k) by (unfold Rabs in E2; destruct (Rcase_abs (q k - h k)); lra). nra.
Qed.

Section Conflicts.
  Variable D n : nat.
  Variable v : nat -> vec.
  Variable size : nat -> nat.
  Variable feature : nat -> nat -> vec.
  Variable cost : nat -> nat -> Z.
  Variable alive : nat -> nat -> Prop.  (* the hypotheses that may win in the cone: the survivors *)
  Variable least step : nat -> Z.       (* of every list: the least cost of its survivors, and the step to the next cost *)

  (** There is one costlier hypothesis that leads all cheapest ones by at least g k at every ray k. *)
  Definition gain (s : nat) (g : nat -> R) : Prop :=
    exists j, (j < size s)%nat /\ cost s j <> least s /\
      forall i k, alive s i -> cost s i = least s -> (k < n)%nat ->
        g k <= dot D (feature s j) (v k) - dot D (feature s i) (v k).

  (** If the gain of a list is not negative at w, none of its cheapest hypotheses is strictly best there. *)
  Theorem gain_beats : forall w x s g c, (forall k, (k < n)%nat -> 0 <= x k) -> same D w (combine n x v) ->
    gain s g -> 0 <= sum n (fun k => x k * g k) ->
    alive s c -> strictly_best D size feature w s c -> cost s c <> least s.
  Proof.
    intros w x s g c X W [j [Hj [Cj G]]] P A B E.
    assert (L : dot D (feature s j) w < dot D (feature s c) w).
    { apply B; auto. intros ->. contradiction. }
    rewrite (dot_same_r D (feature s j) w _ W), (dot_same_r D (feature s c) w _ W), !dot_combine in L.
    assert (sum n (fun k => x k * g k) <=
            sum n (fun k => x k * dot D (feature s j) (v k)) - sum n (fun k => x k * dot D (feature s c) (v k))); [|lra].
    rewrite <- sum_sub. apply sum_le. intros k Hk.
    replace (x k * dot D (feature s j) (v k) - x k * dot D (feature s c) (v k))
      with (x k * (dot D (feature s j) (v k) - dot D (feature s c) (v k))) by ring.
    apply Rmult_le_compat_l; auto.
  Qed.

  (** If one list of every pair pays more than its least cost, the selection costs at least all least costs plus all
      charges. *)
  Theorem pairs_add_up : forall part x (pairs : list (nat * nat)),
    NoDup part -> (forall s, (0 <= step s)%Z) ->
    (forall s, In s part -> alive s (x s)) ->
    (forall s i, In s part -> alive s i ->
       (least s <= cost s i)%Z /\ (cost s i <> least s -> (least s + step s <= cost s i)%Z)) ->
    (forall s t, In (s, t) pairs -> In s part /\ In t part /\ (cost s (x s) <> least s \/ cost t (x t) <> least t)) ->
    (total least part + charged step (map (fun pair => [fst pair; snd pair]) pairs) <=
     total (fun s => cost s (x s)) part)%Z.
  Proof.
    intros part x pairs N Step A L C.
    pose (level := fun s i => match i with O => least s | S _ => (least s + step s)%Z end).
    assert (Rise : forall s i, (level s i <= level s (S i))%Z) by (intros s [|i]; specialize (Step s); simpl; lia).
    assert (H := levels_add_up cost level (fun s => s) (fun _ => 0%nat) Rise part part x pairs N (fun s I => I)).
    rewrite (charged_ext step (height level (fun s => s) (fun _ => 0%nat))); [apply H | unfold height, wanted; simpl; intros; lia].
    - auto.
    - intros s Is. now apply L, A.
    - intros s t I. destruct (C s t I) as [Is [It P]]. split; [auto|split; [auto|]]. unfold wanted. simpl.
      destruct (L s (x s) Is (A s Is)) as [_ Ls]. destruct (L t (x t) It (A t It)) as [_ Lt].
      destruct P as [P|P]; [left | right]; auto.
  Qed.

  (** Two lists are in conflict if a mixture of their gains is nowhere negative. *)
  Definition in_conflict : list nat -> nat * nat -> Prop :=
    conflict gain (fun a b g h => forall k, (k < n)%nat -> 0 <= a * g k + b * h k).

  (** K7: a lower bound on the cost of every selection that weights of the cone decode to. *)
  Theorem conflicts_add_up : forall w part x (pairs : list (nat * nat)),
    in_cone D n v w -> decodes D size feature w part x -> NoDup part ->
    (forall s, (0 <= step s)%Z) ->
    (forall s, In s part -> alive s (x s)) ->
    (forall s i, In s part -> alive s i ->
       (least s <= cost s i)%Z /\ (cost s i <> least s -> (least s + step s <= cost s i)%Z)) ->
    (forall pair, In pair pairs -> in_conflict part pair) ->
    (total least part + charged step (map (fun pair => [fst pair; snd pair]) pairs) <=
     total (fun s => cost s (x s)) part)%Z.
  Proof.
    intros w part x pairs [y [Y W]] [V B] N Step A L C. apply pairs_add_up; auto. intros s t I.
    apply (one_is_paid gain _ part s t (fun g => sum n (fun k => y k * g k)) (fun r => cost r (x r) <> least r))
      with (3 := C _ I).
    - intros a b g h M. now apply mixture.
    - intros r g Ir G P. apply (gain_beats w y r g (x r)); auto.
  Qed.
End Conflicts.
