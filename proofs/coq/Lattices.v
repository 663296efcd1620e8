(** Lattices: paths that other paths beat in a cone of weights (L1), whole paths that rule out links (L2), and lists
    that stand for lattices (L3). *)

From Coq Require Import Reals Lra Lia List.
From Lpmert Require Import Vectors Cones.
Import ListNotations.
Open Scope R_scope.

Section Paths.
  Variable D n : nat.
  Variable v : nat -> vec.

  (** L1 (a): every continuation adds the same vector to both paths. *)
  Theorem order_of_longer_paths : forall q q' r w,
    (forall k, (k < n)%nat -> dot D q (v k) <= dot D q' (v k)) -> in_cone D n v w ->
    dot D (plus q r) w <= dot D (plus q' r) w.
  Proof.
    intros q q' r w H C. rewrite !dot_plus.
    assert (dot D q w <= dot D q' w) by (eapply order_in_the_cone; eauto). lra.
  Qed.

  (** A path is best at w among m others if it is strictly better than all of them. *)
  Definition best_among (m : nat) (p : nat -> vec) (q w : vec) : Prop :=
    forall j, (j < m)%nat -> dot D (p j) w < dot D q w.

  (** L1 (a) for several paths: a mixture of them is at least as good at every ray. *)
  Theorem mixture_is_never_beaten : forall m (share : nat -> R) (p : nat -> vec) q w,
    (forall j, (j < m)%nat -> 0 <= share j) -> (exists j, (j < m)%nat /\ 0 < share j) ->
    (forall k, (k < n)%nat -> 0 <= sum m (fun j => share j * (dot D (p j) (v k) - dot D q (v k)))) ->
    in_cone D n v w -> ~ best_among m p q w.
  Proof.
    intros m share p q w P [i [Hi Pi]] H [x [X E]] B.
    assert (S : sum m (fun j => share j * (dot D (p j) w - dot D q w)) =
                sum n (fun k => x k * sum m (fun j => share j * (dot D (p j) (v k) - dot D q (v k))))).
    { transitivity (sum m (fun j => sum n (fun k => x k * (share j * (dot D (p j) (v k) - dot D q (v k)))))).
      - apply sum_ext. intros j _. rewrite (dot_same_r D (p j) w _ E), (dot_same_r D q w _ E), !dot_combine.
        rewrite <- sum_sub, <- sum_scale. apply sum_ext. intros. ring.
      - rewrite sum_swap. apply sum_ext. intros k _. apply sum_scale. }
    assert (0 <= sum m (fun j => share j * (dot D (p j) w - dot D q w))).
    { rewrite S. apply sum_nonneg. intros k Hk. apply Rmult_le_pos; auto. }
    assert (T : share i * (dot D q w - dot D (p i) w) <= sum m (fun j => share j * (dot D q w - dot D (p j) w))).
    { apply (sum_member m (fun j => share j * (dot D q w - dot D (p j) w))); auto.
      intros j Hj. specialize (B j Hj). specialize (P j Hj). nra. }
    assert (U : sum m (fun j => share j * (dot D q w - dot D (p j) w)) =
                - sum m (fun j => share j * (dot D (p j) w - dot D q w))).
    { transitivity (sum m (fun j => (-1) * (share j * (dot D (p j) w - dot D q w)))).
      - apply sum_ext. intros. ring.
      - rewrite sum_scale. ring. }
    specialize (B i Hi). nra.
  Qed.

  (** The same for longer paths with a common continuation. *)
  Theorem longer_mixture_is_never_beaten : forall m (share : nat -> R) (p : nat -> vec) q r w,
    (forall j, (j < m)%nat -> 0 <= share j) -> (exists j, (j < m)%nat /\ 0 < share j) ->
    (forall k, (k < n)%nat -> 0 <= sum m (fun j => share j * (dot D (p j) (v k) - dot D q (v k)))) ->
    in_cone D n v w -> ~ best_among m (fun j => plus (p j) r) (plus q r) w.
  Proof.
    intros m share p q r w P I H C B. apply (mixture_is_never_beaten m share p q w P I H C).
    intros j Hj. specialize (B j Hj). rewrite !dot_plus in B. lra.
  Qed.

  (** L2: all paths through a link score at most a_k at ray k, and one path scores at least a_k. *)
  Theorem ruled_out_by_a_path : forall (a : nat -> R) p q w,
    (forall k, (k < n)%nat -> dot D q (v k) <= a k) -> (forall k, (k < n)%nat -> a k <= dot D p (v k)) ->
    in_cone D n v w -> dot D q w <= dot D p w.
  Proof.
    intros a p q w Q P C. apply (order_in_the_cone D n v q p w); auto.
    intros k Hk. specialize (Q k Hk). specialize (P k Hk). lra.
  Qed.
End Paths.

(** L2: a lower bound on the loss of all paths that are not ruled out is a lower bound on the loss of the best path. *)
Theorem oracle_bounds_every_winner : forall (path : Type) (loss : path -> R) (left : path -> Prop) least winner,
  (forall p, left p -> least <= loss p) -> left winner -> least <= loss winner.
Proof. auto. Qed.

(** L3: every lattice has a list that contains all its winners in a cone. *)
Theorem lists_stand_for_lattices :
  forall (weights path : Type) (lattices : list nat) (wins : weights -> nat -> path -> Prop)
    (listed : nat -> path -> Prop) (loss : nat -> path -> R) (inside : weights -> Prop) (c : R),
  (forall w s p, inside w -> wins w s p -> listed s p) ->
  (forall w (x : nat -> path), inside w -> (forall s, In s lattices -> wins w s (x s) /\ listed s (x s)) ->
    c <= fold_right (fun s total => loss s (x s) + total) 0 lattices) ->
  forall w (x : nat -> path), inside w -> (forall s, In s lattices -> wins w s (x s)) ->
  c <= fold_right (fun s total => loss s (x s) + total) 0 lattices.
Proof.
  intros weights path lattices wins listed loss inside c L B w x I W. apply (B w x I).
  intros s Hs. split; auto. apply (L w s (x s) I); auto.
Qed.
