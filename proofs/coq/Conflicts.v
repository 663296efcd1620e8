(** Conflicts of two lists in a cone (K7): wherever the weights lie, one of the two pays more than its least. *)

From Coq Require Import Reals Lra Lia List ZArith.
From Lpmert Require Import Vectors Selections Cores Cones.
Import ListNotations.
Open Scope R_scope.

(** Two functions on the rays whose mixture is nowhere negative: at every point of the cone one is not negative. *)
Theorem one_of_two : forall n (x g h : nat -> R) a b, 0 <= a -> 0 <= b -> 0 < a + b ->
  (forall k, (k < n)%nat -> 0 <= x k) -> (forall k, (k < n)%nat -> 0 <= a * g k + b * h k) ->
  0 <= sum n (fun k => x k * g k) \/ 0 <= sum n (fun k => x k * h k).
Proof.
  intros n x g h a b A B AB X M.
  assert (S : 0 <= a * sum n (fun k => x k * g k) + b * sum n (fun k => x k * h k)).
  { rewrite <- !sum_scale, <- sum_add. apply sum_nonneg. intros k Hk.
    replace (a * (x k * g k) + b * (x k * h k)) with (x k * (a * g k + b * h k)) by ring.
    apply Rmult_le_pos; auto. }
  destruct (Rle_dec 0 (sum n (fun k => x k * g k))) as [|G]; [left; auto|].
  destruct (Rle_dec 0 (sum n (fun k => x k * h k))) as [|H]; [right; auto|]. exfalso.
  destruct (Rle_lt_or_eq_dec 0 a A) as [P|<-]; [|nra].
  assert (a * sum n (fun k => x k * g k) < 0) by nra.
  assert (b * sum n (fun k => x k * h k) <= 0) by nra. lra.
Qed.

(** The same for computed values p, q that are off by e, f at most. *)
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
  Variable alive : nat -> nat -> Prop.  (* the hypotheses that may win in the cone *)
  Variable least step : nat -> Z.       (* of every list: the least cost of these, and what the next one adds *)

  (** At ray k, one and the same costlier hypothesis leads over all of the cheapest ones by g k or more. *)
  Definition gain (s : nat) (g : nat -> R) : Prop :=
    exists j, (j < size s)%nat /\ cost s j <> least s /\
      forall i k, alive s i -> cost s i = least s -> (k < n)%nat ->
        g k <= dot D (feature s j) (v k) - dot D (feature s i) (v k).

  (** Where its gain is not negative, none of the cheapest is strictly best. *)
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

  (** What a selection costs of which one list of every pair pays more than its least: the least of all, and charges. *)
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
    pose (deviating := filter (fun s => if Z.eq_dec (cost s (x s)) (least s) then false else true) part).
    assert (Paid : (charged step (map (fun pair => [fst pair; snd pair]) pairs) <= total step deviating)%Z).
    { apply charges_are_paid; auto; [now apply NoDup_filter|].
      intros core I. apply in_map_iff in I. destruct I as [[s t] [<- I]]. simpl.
      assert (Pays : forall r, In r part -> cost r (x r) <> least r -> In r deviating).
      { intros r Ir P. apply filter_In. split; auto. destruct (Z.eq_dec (cost r (x r)) (least r)); auto. }
      destruct (C s t I) as [Is [It [P|P]]]; [exists s | exists t]; split; auto. }
    assert (Rest : (total least part + total step deviating <= total (fun s => cost s (x s)) part)%Z); [|lia].
    unfold deviating. clear -A L. induction part as [|s part IH]; simpl; [lia|].
    assert (IH' := IH (fun t I => A t (or_intror I)) (fun t i I => L t i (or_intror I))).
    destruct (L s (x s) (or_introl eq_refl) (A s (or_introl eq_refl))) as [L1 L2].
    destruct (Z.eq_dec (cost s (x s)) (least s)) as [|Other]; simpl; [lia|]. specialize (L2 Other). lia.
  Qed.

  (** Two lists with gains whose mixture is nowhere negative. *)
  Definition in_conflict (part : list nat) (pair : nat * nat) : Prop :=
    In (fst pair) part /\ In (snd pair) part /\ exists a b g h, 0 <= a /\ 0 <= b /\ 0 < a + b /\
      gain (fst pair) g /\ gain (snd pair) h /\ forall k, (k < n)%nat -> 0 <= a * g k + b * h k.

  (** K7: what every selection costs at least that weights of the cone decode to. *)
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
    destruct (C _ I) as [Is [It [a [b [g [h [Ha [Hb [Hab [Gs [Gt M]]]]]]]]]]]. simpl in *. split; [auto|split; [auto|]].
    destruct (one_of_two n y g h a b Ha Hb Hab Y M) as [P|P]; [left|right].
    - apply (gain_beats w y s g (x s)); auto.
    - apply (gain_beats w y t h (x t)); auto.
  Qed.
End Conflicts.
