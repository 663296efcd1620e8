(** Finite sums and vectors of reals, as far as the proofs need them.

    A vector is a function from positions to reals. Only the first D entries count, and no statement depends on the
    others. *)

From Coq Require Import Reals Lra Lia List.
Import ListNotations.
Open Scope R_scope.

Definition vec := nat -> R.

Fixpoint sum (n : nat) (f : nat -> R) : R :=
  match n with
  | O => 0
  | S m => sum m f + f m
  end.

Lemma sum_ext : forall n f g, (forall k, (k < n)%nat -> f k = g k) -> sum n f = sum n g.
Proof.
  induction n as [|n IH]; intros f g H; simpl; auto.
  rewrite (IH f g) by (intros; apply H; lia). rewrite H by lia. reflexivity.
Qed.

Lemma sum_zero : forall n f, (forall k, (k < n)%nat -> f k = 0) -> sum n f = 0.
Proof.
  induction n as [|n IH]; intros f H; simpl; auto.
  rewrite IH by (intros; apply H; lia). rewrite H by lia. lra.
Qed.

Lemma sum_add : forall n f g, sum n (fun k => f k + g k) = sum n f + sum n g.
Proof. induction n; intros; simpl; [lra | rewrite IHn; lra]. Qed.

Lemma sum_sub : forall n f g, sum n (fun k => f k - g k) = sum n f - sum n g.
Proof. induction n; intros; simpl; [lra | rewrite IHn; lra]. Qed.

Lemma sum_scale : forall n a f, sum n (fun k => a * f k) = a * sum n f.
Proof. induction n; intros; simpl; [lra | rewrite IHn; lra]. Qed.

Lemma sum_le : forall n f g, (forall k, (k < n)%nat -> f k <= g k) -> sum n f <= sum n g.
Proof.
  induction n as [|n IH]; intros f g H; simpl; [lra|].
  assert (sum n f <= sum n g) by (apply IH; intros; apply H; lia).
  assert (f n <= g n) by (apply H; lia). lra.
Qed.

Lemma sum_nonneg : forall n f, (forall k, (k < n)%nat -> 0 <= f k) -> 0 <= sum n f.
Proof.
  intros n f H. rewrite <- (sum_zero n (fun _ => 0)) by auto. now apply sum_le.
Qed.

Lemma sum_member : forall n f k,
  (forall i, (i < n)%nat -> 0 <= f i) -> (k < n)%nat -> f k <= sum n f.
Proof.
  induction n as [|n IH]; intros f k H Hk; [lia|]. simpl.
  assert (0 <= sum n f) by (apply sum_nonneg; intros; apply H; lia).
  assert (0 <= f n) by (apply H; lia).
  destruct (Nat.eq_dec k n) as [->|]; [lra|].
  assert (f k <= sum n f) by (apply IH; [intros; apply H|]; lia). lra.
Qed.

Lemma sum_swap : forall n m f,
  sum n (fun i => sum m (fun j => f i j)) = sum m (fun j => sum n (fun i => f i j)).
Proof.
  induction n as [|n IH]; intros m f; simpl.
  - now rewrite sum_zero by auto.
  - now rewrite IH, <- sum_add.
Qed.

(** [single k a] is a at position k and 0 elsewhere. *)
Definition single (k : nat) (a : R) : nat -> R := fun i => if Nat.eqb i k then a else 0.

Lemma sum_single : forall n k a, (k < n)%nat -> sum n (single k a) = a.
Proof.
  induction n as [|n IH]; intros k a H; [lia|]. simpl. unfold single at 2.
  destruct (Nat.eqb_spec n k) as [->|].
  - rewrite sum_zero; [lra|]. intros i Hi. unfold single.
    destruct (Nat.eqb_spec i k); [lia | reflexivity].
  - rewrite IH by lia. lra.
Qed.

Lemma sum_single_outside : forall n k a, (n <= k)%nat -> sum n (single k a) = 0.
Proof.
  intros. apply sum_zero. intros i Hi. unfold single. destruct (Nat.eqb_spec i k); [lia | reflexivity].
Qed.

Section Dot.
  Variable D : nat.

  Definition dot (u v : vec) : R := sum D (fun d => u d * v d).
  Definition plus (u v : vec) : vec := fun d => u d + v d.
  Definition minus (u v : vec) : vec := fun d => u d - v d.
  Definition times (a : R) (u : vec) : vec := fun d => a * u d.

  (** Two vectors are the same if they agree in the entries that count. *)
  Definition same (u v : vec) : Prop := forall d, (d < D)%nat -> u d = v d.
  Definition zero : vec := fun _ => 0.

  (** [combine n x v] is the sum of x_k v_k over k < n. *)
  Definition combine (n : nat) (x : nat -> R) (v : nat -> vec) : vec := fun d => sum n (fun k => x k * v k d).

  Lemma dot_comm : forall u v, dot u v = dot v u.
  Proof. intros. apply sum_ext. intros. ring. Qed.

  Lemma dot_plus : forall u v w, dot (plus u v) w = dot u w + dot v w.
  Proof. intros. unfold dot, plus. rewrite <- sum_add. apply sum_ext. intros. ring. Qed.

  Lemma dot_minus : forall u v w, dot (minus u v) w = dot u w - dot v w.
  Proof. intros. unfold dot, minus. rewrite <- sum_sub. apply sum_ext. intros. ring. Qed.

  Lemma dot_times : forall a u w, dot (times a u) w = a * dot u w.
  Proof. intros. unfold dot, times. rewrite <- sum_scale. apply sum_ext. intros. ring. Qed.

  Lemma dot_plus_r : forall u v w, dot w (plus u v) = dot w u + dot w v.
  Proof. intros. rewrite !(dot_comm w). apply dot_plus. Qed.

  Lemma dot_minus_r : forall u v w, dot w (minus u v) = dot w u - dot w v.
  Proof. intros. rewrite !(dot_comm w). apply dot_minus. Qed.

  Lemma dot_times_r : forall a u w, dot w (times a u) = a * dot w u.
  Proof. intros. rewrite !(dot_comm w). apply dot_times. Qed.

  Lemma dot_same : forall u u' w, same u u' -> dot u w = dot u' w.
  Proof. intros u u' w H. apply sum_ext. intros d Hd. now rewrite H. Qed.

  Lemma dot_same_r : forall u w w', same w w' -> dot u w = dot u w'.
  Proof. intros u w w' H. apply sum_ext. intros d Hd. now rewrite H. Qed.

  Lemma dot_zero : forall w, dot zero w = 0.
  Proof. intros. apply sum_zero. intros. unfold zero. ring. Qed.

  Lemma dot_combine : forall n x v u, dot u (combine n x v) = sum n (fun k => x k * dot u (v k)).
  Proof.
    intros. unfold dot, combine.
    transitivity (sum D (fun d => sum n (fun k => x k * (u d * v k d)))).
    - apply sum_ext. intros. rewrite <- sum_scale. apply sum_ext. intros. ring.
    - rewrite sum_swap. apply sum_ext. intros. rewrite sum_scale. reflexivity.
  Qed.

  Lemma dot_self_nonneg : forall u, 0 <= dot u u.
  Proof. intros. apply sum_nonneg. intros. apply Rle_0_sqr. Qed.

  Lemma dot_self_zero : forall u, dot u u = 0 -> same u zero.
  Proof.
    intros u H d Hd. unfold zero.
    assert (u d * u d <= dot u u).
    { apply (sum_member D (fun i => u i * u i)); auto. intros. apply Rle_0_sqr. }
    assert (0 <= u d * u d) by apply Rle_0_sqr.
    assert (u d * u d = 0) by lra. now apply Rsqr_0_uniq.
  Qed.

  (** Cauchy-Schwarz, squared. *)
  Lemma cauchy_schwarz : forall u v, dot u v * dot u v <= dot u u * dot v v.
  Proof.
    intros u v.
    assert (Hu := dot_self_nonneg u). assert (Hv := dot_self_nonneg v).
    destruct (Req_dec (dot v v) 0) as [E|E].
    - assert (dot u v = 0) as ->.
      { apply sum_zero. intros d Hd. rewrite (dot_self_zero v E d Hd). unfold zero. ring. }
      rewrite E. lra.
    - assert (H := dot_self_nonneg (minus (times (dot v v) u) (times (dot u v) v))).
      rewrite !dot_minus, !dot_minus_r, !dot_times, !dot_times_r, (dot_comm v u) in H.
      assert (0 < dot v v) by lra.
      assert (0 <= dot v v * (dot u u * dot v v - dot u v * dot u v)) by nra.
      apply Rmult_le_reg_l with (dot v v); lra.
  Qed.

  (** The Euclidean length. *)
  Definition norm (u : vec) : R := sqrt (dot u u).

  Lemma norm_nonneg : forall u, 0 <= norm u.
  Proof. intros. apply sqrt_pos. Qed.

  Lemma norm_square : forall u, norm u * norm u = dot u u.
  Proof. intros. apply sqrt_sqrt, dot_self_nonneg. Qed.

  Lemma norm_zero : forall u, norm u = 0 -> same u zero.
  Proof. intros u H. apply dot_self_zero. rewrite <- norm_square, H. ring. Qed.

  Lemma dot_le_norms : forall u v, dot u v <= norm u * norm v.
  Proof.
    intros u v. assert (H := cauchy_schwarz u v). rewrite <- !norm_square in H.
    assert (Hu := norm_nonneg u). assert (Hv := norm_nonneg v).
    destruct (Rle_or_lt (dot u v) 0); [nra|].
    apply Rsqr_incr_0_var; unfold Rsqr; nra.
  Qed.

  Notation "u · v" := (dot u v) (at level 40).

  (** The closed cell and the open cell with the rows b_k, k < m. *)
  Definition closed_cell (m : nat) (b : nat -> vec) (w : vec) : Prop := forall k, (k < m)%nat -> 0 <= b k · w.
  Definition open_cell (m : nat) (b : nat -> vec) (w : vec) : Prop := forall k, (k < m)%nat -> 0 < b k · w.

  (** A small step keeps strict inequalities. *)
  Lemma small_step : forall m (b : nat -> vec) w v, open_cell m b w ->
    exists e, 0 < e /\ forall a, 0 <= a <= e -> open_cell m b (plus w (times a v)).
  Proof.
    induction m as [|m IH]; intros b w v C.
    - exists 1. split; [lra|]. intros a _ k Hk. lia.
    - destruct (IH b w v) as [e [E He]]; [intros k Hk; apply C; lia|].
      assert (Cm : 0 < b m · w) by (apply C; lia).
      assert (A : 0 <= Rabs (b m · v)) by apply Rabs_pos.
      pose (f := b m · w / (Rabs (b m · v) + 1) / 2).
      assert (F : 0 < f).
      { unfold f, Rdiv. apply Rmult_lt_0_compat; [apply Rmult_lt_0_compat; auto|lra].
        apply Rinv_0_lt_compat. lra. }
      exists (Rmin e f). split; [apply Rmin_glb_lt; auto|].
      assert (M1 := Rmin_l e f). assert (M2 := Rmin_r e f).
      intros a [A0 A1] k Hk. destruct (Nat.eq_dec k m) as [->|]; [|apply He; [lra | lia]].
      rewrite dot_plus_r, dot_times_r.
      assert (a * (b m · v) >= - (f * Rabs (b m · v))).
      { assert (Q : - Rabs (b m · v) <= b m · v) by (unfold Rabs; destruct (Rcase_abs (b m · v)); lra).
        assert (a * - Rabs (b m · v) <= a * (b m · v)) by (apply Rmult_le_compat_l; auto).
        assert (a * Rabs (b m · v) <= f * Rabs (b m · v)) by (apply Rmult_le_compat_r; lra). lra. }
      assert (f * (Rabs (b m · v) + 1) = b m · w / 2) by (unfold f; field; lra). nra.
  Qed.
End Dot.

(** Sums of integers over a Coq list. *)
From Coq Require Import ZArith.

Fixpoint total {A : Type} (f : A -> Z) (l : list A) : Z :=
  match l with
  | [] => 0%Z
  | a :: rest => (f a + total f rest)%Z
  end.

Lemma total_ext : forall {A} (f g : A -> Z) l, (forall a, In a l -> f a = g a) -> total f l = total g l.
Proof. induction l; simpl; intros H; auto. rewrite IHl, H; auto. Qed.

Lemma total_app : forall {A} (f : A -> Z) l l', total f (l ++ l') = (total f l + total f l')%Z.
Proof. induction l; simpl; intros; auto. rewrite IHl. lia. Qed.

Lemma total_le : forall {A} (f g : A -> Z) l, (forall a, In a l -> (f a <= g a)%Z) -> (total f l <= total g l)%Z.
Proof.
  induction l; simpl; intros H; [lia|].
  assert ((total f l <= total g l)%Z) by (apply IHl; auto). specialize (H a (or_introl eq_refl)). lia.
Qed.

Lemma total_nonneg : forall {A} (f : A -> Z) l, (forall a, In a l -> (0 <= f a)%Z) -> (0 <= total f l)%Z.
Proof.
  induction l; simpl; intros H; [lia|].
  assert (0 <= total f l)%Z by (apply IHl; auto). specialize (H a (or_introl eq_refl)). lia.
Qed.

Lemma total_add : forall {A} (f g : A -> Z) l, total (fun a => (f a + g a)%Z) l = (total f l + total g l)%Z.
Proof. induction l; simpl; intros; auto. rewrite IHl. lia. Qed.
