(** Cones of weights: order at the rays (K1), the cones that cover the space and the parts of a cone
    (K2), the bound of a cone (K3), and wider cones (K4). *)

From Coq Require Import Reals Lra Lia List ZArith.
From Lpmert Require Import Vectors Selections.
Import ListNotations.
Open Scope R_scope.

(** The closed cone of n rays. *)
Definition in_cone (D n : nat) (v : nat -> vec) (w : vec) : Prop :=
  exists x, (forall k, (k < n)%nat -> 0 <= x k) /\ same D w (combine n x v).

Section Order.
  Variable D n : nat.
  Variable v : nat -> vec.

  (** K1: an order of scores that holds at all rays holds in the whole cone. *)
  Theorem order_in_the_cone : forall i j w,
    (forall k, (k < n)%nat -> dot D i (v k) <= dot D j (v k)) -> in_cone D n v w -> dot D i w <= dot D j w.
  Proof.
    intros i j w H [x [P E]]. rewrite (dot_same_r D i w _ E), (dot_same_r D j w _ E), !dot_combine.
    apply sum_le. intros k Hk. apply Rmult_le_compat_l; auto.
  Qed.

  (** If the lead is also strict at one ray, it is strict inside the cone. *)
  Theorem order_inside_the_cone : forall i j w x,
    (forall k, (k < n)%nat -> dot D i (v k) <= dot D j (v k)) ->
    (exists k, (k < n)%nat /\ dot D i (v k) < dot D j (v k)) ->
    (forall k, (k < n)%nat -> 0 < x k) -> same D w (combine n x v) -> dot D i w < dot D j w.
  Proof.
    intros i j w x H [q [Hq L]] P E. rewrite (dot_same_r D i w _ E), (dot_same_r D j w _ E), !dot_combine.
    assert (S : sum n (fun k => x k * (dot D j (v k) - dot D i (v k))) =
              sum n (fun k => x k * dot D j (v k)) - sum n (fun k => x k * dot D i (v k))).
    { rewrite <- sum_sub. apply sum_ext. intros. ring. }
    assert (M : x q * (dot D j (v q) - dot D i (v q)) <= sum n (fun k => x k * (dot D j (v k) - dot D i (v k)))).
    { apply (sum_member n (fun k => x k * (dot D j (v k) - dot D i (v k)))); auto.
      intros k Hk. specialize (H k Hk). specialize (P k Hk). nra. }
    specialize (P q Hq). nra.
  Qed.

  (** K1 for computed scores, with errors of at most e_k at ray k. *)
  Theorem order_with_errors : forall i j w (a b e : nat -> R),
    (forall k, (k < n)%nat -> Rabs (a k - dot D i (v k)) <= e k /\ Rabs (b k - dot D j (v k)) <= e k) ->
    (forall k, (k < n)%nat -> 2 * e k <= b k - a k) -> in_cone D n v w -> dot D i w <= dot D j w.
  Proof.
    intros i j w a b e A L. apply order_in_the_cone. intros k Hk.
    destruct (A k Hk) as [A1 A2]. specialize (L k Hk).
    unfold Rabs in A1, A2. destruct (Rcase_abs (a k - dot D i (v k))), (Rcase_abs (b k - dot D j (v k))); lra.
  Qed.
End Order.

(** The mean of two computed scores is the score at the midpoint, up to the mean of their errors and the rounding of
    the mean. *)
Theorem midpoint_error : forall D i (p q : vec) a b ea eb r c,
  Rabs (a - dot D i p) <= ea -> Rabs (b - dot D i q) <= eb -> Rabs (c - (a + b) / 2) <= r ->
  Rabs (c - dot D i (times (/ 2) (plus p q))) <= (ea + eb) / 2 + r.
Proof.
  intros D i p q a b ea eb r c A B C. rewrite dot_times_r, dot_plus_r.
  unfold Rabs in *.
  destruct (Rcase_abs (a - dot D i p)), (Rcase_abs (b - dot D i q)), (Rcase_abs (c - (a + b) / 2)),
    (Rcase_abs (c - / 2 * (dot D i p + dot D i q))); lra.
Qed.

(** ** K2: the cones cover the space *)

(** The 2^D orthants. *)
Theorem orthants_cover : forall D w, exists sign : nat -> R,
  (forall k, sign k = 1 \/ sign k = -1) /\ in_cone D D (fun k => single k (sign k)) w.
Proof.
  intros D w. exists (fun k => if Rle_dec 0 (w k) then 1 else -1). split.
  - intros k. destruct (Rle_dec 0 (w k)); auto.
  - exists (fun k => Rabs (w k)). split; [intros; apply Rabs_pos|].
    intros d Hd. unfold combine.
    rewrite (sum_ext D _ (single d (w d))); [now rewrite sum_single|].
    intros k _. unfold single. rewrite (Nat.eqb_sym d k). destruct (Nat.eqb_spec k d) as [->|]; [|ring].
    unfold Rabs. destruct (Rle_dec 0 (w d)), (Rcase_abs (w d)); lra.
Qed.

(** The D + 1 cones over the facets of the simplex with the vertices e_1, ..., e_D and -(1, ..., 1). Each cone has all
    vertices as rays except one, vertex q. *)
Definition corner (D k : nat) : vec := if Nat.eqb k D then fun _ => -1 else single k 1.

Lemma least_entry : forall D (w : vec), (0 < D)%nat ->
  exists q, (q < D)%nat /\ forall k, (k < D)%nat -> w q <= w k.
Proof.
  induction D as [|D IH]; intros w H; [lia|]. destruct (Nat.eq_dec D 0) as [->|].
  - exists 0%nat. split; auto. intros k Hk. replace k with 0%nat by lia. lra.
  - destruct (IH w) as [q [Hq L]]; [lia|]. destruct (Rle_dec (w q) (w D)).
    + exists q. split; [lia|]. intros k Hk. destruct (Nat.eq_dec k D) as [->|]; auto. apply L. lia.
    + exists D. split; [lia|]. intros k Hk. destruct (Nat.eq_dec k D) as [->|]; [lra|].
      specialize (L k ltac:(lia)). lra.
Qed.

Theorem simplex_covers : forall D w, exists q x, (q <= D)%nat /\ x q = 0 /\
  (forall k, (k <= D)%nat -> 0 <= x k) /\ same D w (combine (S D) x (corner D)).
Proof.
  intros D w.
  assert (E : forall m d, (d < D)%nat ->
    combine (S D) (fun k => if Nat.eqb k D then m else w k + m) (corner D) d = w d).
  { intros m d Hd. unfold combine. simpl. unfold corner at 2. rewrite !Nat.eqb_refl.
    rewrite (sum_ext D _ (single d (w d + m))); [rewrite sum_single by auto; lra|].
    intros k Hk. unfold corner, single. destruct (Nat.eqb_spec k D); [lia|].
    rewrite (Nat.eqb_sym d k). destruct (Nat.eqb_spec k d) as [->|]; ring. }
  destruct (Nat.eq_dec D 0) as [->|N].
  { exists 0%nat, (fun _ => 0). repeat split; auto; [intros; lra | intros d Hd; lia]. }
  destruct (least_entry D w) as [q [Hq L]]; [lia|].
  destruct (Rle_dec 0 (w q)) as [P|P].
  - exists D, (fun k => if Nat.eqb k D then 0 else w k + 0). rewrite Nat.eqb_refl. repeat split; auto.
    + intros k Hk. destruct (Nat.eqb_spec k D); [lra|]. specialize (L k ltac:(lia)). lra.
    + intros d Hd. now rewrite E.
  - exists q, (fun k => if Nat.eqb k D then - w q else w k + - w q). repeat split.
    + lia.
    + destruct (Nat.eqb_spec q D); [lia | lra].
    + intros k Hk. destruct (Nat.eqb_spec k D); [lra|]. specialize (L k ltac:(lia)). lra.
    + intros d Hd. now rewrite E.
Qed.

(** C2: a core needs all of these D + 1 vectors. They add up to 0, but without any one of them, some weights have
    positive products with all others. *)
Theorem every_corner_is_needed : forall D q, (q <= D)%nat ->
  exists w, forall k, (k <= D)%nat -> k <> q -> 0 < dot D (corner D k) w.
Proof.
  intros D q Hq. exists (fun d => if Nat.eqb d q then - INR D else 1). intros k Hk N. unfold dot, corner.
  destruct (Nat.eqb_spec k D) as [->|Nk].
  - (* q < D: the sum of all entries is D - 1 - D *)
    rewrite (sum_ext D _ (fun d => single q (INR D + 1) d - 1)).
    + rewrite sum_sub, sum_single by lia.
      assert (K : forall m, sum m (fun _ => 1) = INR m) by (induction m; [reflexivity | rewrite S_INR; simpl; lra]).
      rewrite K. lra.
    + intros d _. unfold single. destruct (Nat.eqb d q); ring.
  - rewrite (sum_ext D _ (single k 1)).
    + rewrite sum_single by lia. lra.
    + intros d _. unfold single. destruct (Nat.eqb_spec d k) as [->|]; [|ring].
      destruct (Nat.eqb_spec k q); [contradiction | ring].
Qed.

Theorem the_corners_add_up_to_zero : forall D, same D (combine (S D) (fun _ => 1) (corner D)) zero.
Proof.
  intros D d Hd. unfold combine, zero. simpl. unfold corner at 2. rewrite Nat.eqb_refl.
  rewrite (sum_ext D _ (single d 1)); [rewrite sum_single by auto; ring|].
  intros k Hk. unfold corner, single. destruct (Nat.eqb_spec k D); [lia|].
  rewrite (Nat.eqb_sym d k). destruct (Nat.eqb_spec k d); ring.
Qed.

(** A cone and its two parts, in which a ray between two rays replaces one or the other. Engines take the midpoint
    (a = b = 1 / 2); certificates may take any other ray between them. *)
Definition between (v : nat -> vec) (p q : nat) (a b : R) : vec := plus (times a (v p)) (times b (v q)).

Definition child (v : nat -> vec) (p q : nat) (a b : R) (replaced : nat) : nat -> vec :=
  fun k => if Nat.eqb k replaced then between v p q a b else v k.

Lemma part_covers : forall D n v p q a b x, (p < n)%nat -> (q < n)%nat -> p <> q -> 0 < a -> 0 < b ->
  (forall k, (k < n)%nat -> 0 <= x k) -> b * x p <= a * x q ->
  in_cone D n (child v p q a b p) (combine n x v).
Proof.
  intros D n v p q a b x Hp Hq N A B P L.
  exists (fun k => if Nat.eqb k p then x p / a else if Nat.eqb k q then x q - b * x p / a else x k). split.
  - intros k Hk. assert (0 <= x p) by auto. specialize (P k Hk).
    destruct (Nat.eqb_spec k p) as [->|]; [|destruct (Nat.eqb_spec k q) as [->|]; auto].
    + apply Rmult_le_pos; auto. apply Rlt_le, Rinv_0_lt_compat; auto.
    + apply Rmult_le_reg_l with a; auto. replace (a * (x q - b * x p / a)) with (a * x q - b * x p) by (field; lra). lra.
  - intros d _. unfold combine.
    rewrite (sum_ext n (fun k => (if Nat.eqb k p then _ else _) * _)
              (fun k => x k * v k d + single p (b * x p / a * v q d) k + single q (- (b * x p / a) * v q d) k)).
    + rewrite !sum_add, !sum_single by auto. ring.
    + intros k Hk. unfold child, between, times, plus, single.
      destruct (Nat.eqb_spec k p) as [->|].
      * destruct (Nat.eqb_spec p q); [contradiction | field; lra].
      * destruct (Nat.eqb_spec k q) as [->|]; ring.
Qed.

Theorem parts_cover : forall D n v p q a b w, (p < n)%nat -> (q < n)%nat -> p <> q -> 0 < a -> 0 < b ->
  in_cone D n v w -> in_cone D n (child v p q a b p) w \/ in_cone D n (child v p q a b q) w.
Proof.
  intros D n v p q a b w Hp Hq N A B [x [P E]].
  assert (T : forall r, in_cone D n (child v p q a b r) (combine n x v) -> in_cone D n (child v p q a b r) w).
  { intros r [y [Py Ey]]. exists y. split; auto. intros d Hd. now rewrite E, Ey. }
  destruct (Rle_dec (b * x p) (a * x q)).
  - left. apply T. now apply part_covers.
  - right. apply T.
    destruct (part_covers D n v q p b a x) as [y [Py Ey]]; auto; [lra|].
    exists y. split; auto. intros d Hd. rewrite Ey by auto. unfold combine. apply sum_ext. intros k _.
    unfold child, between, times, plus. destruct (Nat.eqb k q); lra.
Qed.

(** The parts lie within the cone, so only their common face is searched twice. *)
Theorem parts_inside : forall D n v p q a b w, (p < n)%nat -> (q < n)%nat -> p <> q -> 0 < a -> 0 < b ->
  in_cone D n (child v p q a b p) w -> in_cone D n v w.
Proof.
  intros D n v p q a b w Hp Hq N A B [x [P E]].
  exists (fun k => if Nat.eqb k p then a * x p else if Nat.eqb k q then x q + b * x p else x k). split.
  - intros k Hk. assert (0 <= x p) by auto. assert (0 <= x q) by auto. specialize (P k Hk).
    destruct (Nat.eqb_spec k p); [|destruct (Nat.eqb_spec k q); auto].
    + apply Rmult_le_pos; lra.
    + assert (0 <= b * x p) by (apply Rmult_le_pos; lra). lra.
  - intros d Hd. rewrite E by auto. unfold combine.
    rewrite (sum_ext n (fun k => (if Nat.eqb k p then _ else _) * _)
              (fun k => x k * child v p q a b p k d + single p (- (b * x p * v q d)) k + single q (b * x p * v q d) k)).
    + rewrite !sum_add, !sum_single by auto. ring.
    + intros k Hk. unfold child, between, times, plus, single.
      destruct (Nat.eqb_spec k p) as [->|].
      * destruct (Nat.eqb_spec p q); [contradiction | ring].
      * destruct (Nat.eqb_spec k q) as [->|]; ring.
Qed.

(** ** K3: the bound of a cone *)

Section Bound.
  Variable D n : nat.
  Variable v : nat -> vec.
  Variable size : nat -> nat.
  Variable feature : nat -> nat -> vec.
  Variable cost : nat -> nat -> Z.

  Definition beaten (s h : nat) : Prop :=
    exists j, (j < size s)%nat /\ j <> h /\
      forall k, (k < n)%nat -> dot D (feature s h) (v k) <= dot D (feature s j) (v k).

  (** A hypothesis that is equalled or beaten at every ray by another one of its list is strictly best nowhere in the
      closed cone. Dropping it loses no selection, and boundaries need no special treatment. *)
  Theorem beaten_never_wins : forall w s h,
    in_cone D n v w -> beaten s h -> ~ strictly_best D size feature w s h.
  Proof.
    intros w s h C [j [Hj [N B]]] W.
    assert (dot D (feature s h) w <= dot D (feature s j) w) by (eapply order_in_the_cone; eauto).
    specialize (W j Hj N). lra.
  Qed.

  (** The survivors bound the cost of every selection that weights of the closed cone decode to. *)
  Theorem cone_bound : forall part (floor : nat -> Z) w x,
    (forall s h, In s part -> (h < size s)%nat -> ~ beaten s h -> (floor s <= cost s h)%Z) ->
    in_cone D n v w -> decodes D size feature w part x -> (total floor part <= costs cost part x)%Z.
  Proof.
    intros part floor w x F C [V B]. apply total_le. intros s Is. apply F; auto.
    intros H. eapply beaten_never_wins; eauto.
  Qed.
End Bound.

(** ** K4: a cone within a wider, open one *)

Theorem inside_the_wider_cone : forall D n v m (normal : nat -> vec) w,
  (forall k j, (k < n)%nat -> (j < m)%nat -> 0 < dot D (normal j) (v k)) ->
  in_cone D n v w -> ~ same D w zero -> forall j, (j < m)%nat -> 0 < dot D (normal j) w.
Proof.
  intros D n v m normal w H [x [P E]] N j Hj.
  rewrite (dot_same_r D _ w _ E), dot_combine.
  assert (dec : (exists k, (k < n)%nat /\ 0 < x k) \/ forall k, (k < n)%nat -> x k = 0).
  { clear -P. induction n as [|n' IH]; [right; intros; lia|].
    destruct IH as [[k [Hk L]]|Z]; [intros; apply P; lia | left; exists k; split; [lia | auto] |].
    destruct (Rle_lt_or_eq_dec 0 (x n')) as [L|L]; [apply P; lia | left; exists n'; auto |].
    right. intros k Hk. destruct (Nat.eq_dec k n') as [->|]; auto. apply Z. lia. }
  destruct dec as [[k [Hk L]]|Z].
  - assert (M : x k * dot D (normal j) (v k) <= sum n (fun k => x k * dot D (normal j) (v k))).
    { apply (sum_member n (fun k => x k * dot D (normal j) (v k))); auto.
      intros i Hi. apply Rmult_le_pos; auto. apply Rlt_le; auto. }
    assert (0 < x k * dot D (normal j) (v k)) by (apply Rmult_lt_0_compat; auto). lra.
  - exfalso. apply N. intros d Hd. rewrite E by auto. apply sum_zero. intros k Hk. rewrite Z by auto. ring.
Qed.

(** Weights with x_k >= - alpha sum x lie in the cone of the rays (1 + eta) v_k - eta sum v, if
    alpha <= eta and n eta < 1. *)
Theorem wider_rays_contain : forall D n v alpha eta x w, 0 <= alpha <= eta -> INR n * eta < 1 ->
  (forall k, (k < n)%nat -> - alpha * sum n x <= x k) -> same D w (combine n x v) ->
  in_cone D n (fun k => minus (times (1 + eta) (v k)) (times eta (combine n (fun _ => 1) v))) w.
Proof.
  intros D n v alpha eta x w [A E] N P W.
  pose (c := 1 + eta - INR n * eta). pose (Y := sum n x / c).
  assert (C : 0 < c) by (unfold c; lra).
  assert (X : 0 <= sum n x).
  { assert (H : sum n (fun _ => - alpha * sum n x) <= sum n x) by (apply sum_le; auto).
    assert (K : forall m, sum m (fun _ => - alpha * sum n x) = INR m * (- alpha * sum n x)).
    { induction m as [|m IH]; [simpl; ring | rewrite S_INR; simpl; rewrite IH; ring]. }
    rewrite K in H. assert (0 <= INR n) by apply pos_INR.
    destruct (Rle_dec 0 (sum n x)) as [|Q]; auto. exfalso.
    assert (0 <= INR n * alpha) by (apply Rmult_le_pos; lra).
    assert (INR n * alpha <= INR n * eta) by (apply Rmult_le_compat_l; lra).
    assert (0 < (1 + INR n * alpha) * - sum n x) by (apply Rmult_lt_0_compat; lra). lra. }
  assert (Xc : sum n x = c * Y) by (unfold Y; field; lra).
  assert (HY : sum n x <= Y).
  { assert (0 <= Y) by (unfold Y; apply Rmult_le_pos; auto; apply Rlt_le, Rinv_0_lt_compat; auto).
    destruct n as [|n']; [simpl; lra|]. rewrite Xc. assert (c <= 1); [|nra].
    unfold c. rewrite S_INR. assert (0 <= INR n') by apply pos_INR. nra. }
  exists (fun k => (x k + eta * Y) / (1 + eta)). split.
  - intros k Hk. specialize (P k Hk). apply Rmult_le_pos; [|apply Rlt_le, Rinv_0_lt_compat; lra].
    assert (alpha * sum n x <= eta * Y) by (apply Rmult_le_compat; lra). lra.
  - intros d Hd. rewrite W by auto. unfold combine, minus, times.
    set (V := sum n (fun k => 1 * v k d)).
    assert (K : forall m, sum m (fun _ => eta * Y) = INR m * (eta * Y)).
    { induction m as [|m IH]; [simpl; ring | rewrite S_INR; simpl; rewrite IH; ring]. }
    rewrite (sum_ext n (fun k => (x k + eta * Y) / (1 + eta) * _)
              (fun k => (x k * v k d + eta * Y * (1 * v k d)) - eta / (1 + eta) * V * (x k + eta * Y)))
      by (intros k _; field; lra).
    rewrite sum_sub, sum_add, (sum_scale n (eta * Y) (fun k => 1 * v k d)),
      (sum_scale n (eta / (1 + eta) * V) (fun k => x k + eta * Y)), sum_add, K, Xc. fold V.
    replace (eta / (1 + eta) * V * (c * Y + INR n * (eta * Y))) with (eta * Y * V) by (unfold c; field; lra).
    ring.
Qed.
