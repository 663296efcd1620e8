(** Metrics that are ratios of summed statistics: minorants of BLEU (R1, R2) and chrF (R3), their sums
    over lists (R4), and linear fractions (R5, after Dinkelbach). *)

From Coq Require Import Reals Lra Lia List.
From Lpmert Require Import Vectors.
Import ListNotations.
Open Scope R_scope.

(** ** R1: tangents of convex and chords of concave terms *)

Theorem tangent_of_log : forall c a, 0 < c -> 0 < a -> ln c <= ln a + (c - a) / a.
Proof.
  intros c a Hc Ha.
  assert (0 < c / a) by (apply Rdiv_lt_0_compat; auto).
  assert (E : ln c = ln a + ln (c / a)).
  { rewrite <- ln_mult by auto. f_equal. field. lra. }
  assert (H1 := exp_ineq1_le (ln (c / a))). rewrite exp_ln in H1 by auto.
  replace ((c - a) / a) with (c / a - 1) by (field; lra). lra.
Qed.

Theorem chord_of_log : forall t l m s, 0 < l -> l <= t <= m -> s * (m - l) = ln m - ln l ->
  ln l + s * (t - l) <= ln t.
Proof.
  intros t l m s Hl [Lt Tm] E.
  destruct (Req_dec l m) as [->|N].
  - replace t with m by lra. lra.
  - assert (A := tangent_of_log l t Hl ltac:(lra)). assert (B := tangent_of_log m t ltac:(lra) ltac:(lra)).
    (* (m - t) times the first and (t - l) times the second *)
    assert (P : (m - t) * ln l + (t - l) * ln m <= (m - l) * ln t).
    { apply Rmult_le_compat_l with (r := m - t) in A; [|lra].
      apply Rmult_le_compat_l with (r := t - l) in B; [|lra].
      assert ((m - t) * ((l - t) / t) + (t - l) * ((m - t) / t) = 0) by (field; lra). lra. }
    apply Rmult_le_reg_l with (m - l); [lra|].
    replace ((m - l) * (ln l + s * (t - l))) with ((m - t) * ln l + (t - l) * (ln l + s * (m - l))) by ring.
    rewrite E. lra.
Qed.

Theorem tangent_of_inverse : forall t a, 0 < t -> 0 < a -> 2 / a - t / (a * a) <= / t.
Proof.
  intros t a Ht Ha.
  assert (E : / t - (2 / a - t / (a * a)) = (t - a) * (t - a) / (t * (a * a))) by (field; lra).
  assert (0 <= (t - a) * (t - a) / (t * (a * a))); [|lra].
  apply Rmult_le_pos; [apply Rle_0_sqr|]. apply Rlt_le, Rinv_0_lt_compat.
  apply Rmult_lt_0_compat; [|apply Rmult_lt_0_compat]; lra.
Qed.

Theorem chord_of_inverse : forall t l m, 0 < l -> l <= t <= m -> / t <= / l + / m - t / (l * m).
Proof.
  intros t l m Hl [Lt Tm].
  assert (E : / l + / m - t / (l * m) - / t = (t - l) * (m - t) / (t * l * m)) by (field; lra).
  assert (0 <= (t - l) * (m - t) / (t * l * m)); [|lra].
  apply Rmult_le_pos; [apply Rmult_le_pos; lra|]. apply Rlt_le, Rinv_0_lt_compat.
  apply Rmult_lt_0_compat; [apply Rmult_lt_0_compat|]; lra.
Qed.

(** McCormick: linear bounds below and above a product of two numbers in intervals. *)
Theorem product_below : forall r y rl rh yl yh, rl <= r <= rh -> yl <= y <= yh ->
  rl * y + r * yl - rl * yl <= r * y /\ rh * y + r * yh - rh * yh <= r * y.
Proof. intros. split; nra. Qed.

Theorem product_above : forall r y rl rh yl yh, rl <= r <= rh -> yl <= y <= yh ->
  r * y <= rh * y + r * yl - rh * yl /\ r * y <= rl * y + r * yh - rl * yh.
Proof. intros. split; nra. Qed.

(** ** R2: -log BLEU with a reference length that varies with the hypotheses

    height = 1/4 sum_n (log T_n - log C_n) + max(0, R / T_1 - 1). Below it lies the linear function that `lay_bleu`
    computes, with slopes for C_n, T_n and R. *)

Definition brevity (R0 T : R) : R := Rmax 0 (R0 / T - 1).

Theorem brevity_minorant : forall ref t rl rh tl th a reference steepness,
  0 <= rl -> rl <= ref <= rh -> 0 < tl -> tl <= t <= th -> 0 < a ->
  (reference = rl /\ steepness = / th) \/ (reference = rh /\ steepness = / tl) ->
  reference * (2 / a - steepness) - 1 - reference / (a * a) * t + steepness * ref <= brevity ref t.
Proof.
  intros ref t rl rh tl th a reference steepness Hr [R1 R2] Htl [T1 T2] Ha Choice.
  apply Rle_trans with (ref / t - 1); [|apply Rmax_r].
  assert (Y1 : / th <= / t) by (apply Rinv_le_contravar; lra).
  assert (Y2 : / t <= / tl) by (apply Rinv_le_contravar; lra).
  destruct (product_below ref (/ t) rl rh (/ th) (/ tl)) as [B1 B2]; auto.
  assert (I := tangent_of_inverse t a ltac:(lra) Ha).
  assert (E : reference * (2 / a - steepness) - 1 - reference / (a * a) * t + steepness * ref =
            reference * (2 / a - t / (a * a)) + ref * steepness - reference * steepness - 1) by (field; lra).
  rewrite E. unfold Rdiv at 3.
  destruct Choice as [[-> ->]|[-> ->]].
  - assert (rl * (2 / a - t / (a * a)) <= rl * / t) by (apply Rmult_le_compat_l; auto). lra.
  - assert (rh * (2 / a - t / (a * a)) <= rh * / t) by (apply Rmult_le_compat_l; auto; lra). lra.
Qed.

Section Bleu.
  (** The matches, totals and reference length of a selection, and the box of the node. *)
  Variable C T Tl Th : nat -> R.
  Variable ref rl rh : R.
  Hypothesis matched : forall n, (n < 4)%nat -> 0 < C n.
  Hypothesis totals : forall n, (n < 4)%nat -> 0 < Tl n /\ Tl n <= T n <= Th n.
  Hypothesis references : 0 <= rl /\ rl <= ref <= rh.

  Definition height : R := / 4 * sum 4 (fun n => ln (T n) - ln (C n)) + brevity ref (T 0%nat).

  (** The tangent points for the matches, and the slopes of the chords for the totals. *)
  Variable point chord : nat -> R.
  Hypothesis points : forall n, (n < 4)%nat -> 0 < point n.
  Hypothesis chords : forall n, (n < 4)%nat -> chord n * (Th n - Tl n) = ln (Th n) - ln (Tl n).

  Definition precision_part : R :=
    sum 4 (fun n => / 4 * (1 - ln (point n)) - / 4 / point n * C n
                    + (/ 4 * ln (Tl n) - / 4 * chord n * Tl n) + / 4 * chord n * T n).

  Lemma precision_minorant : precision_part <= / 4 * sum 4 (fun n => ln (T n) - ln (C n)).
  Proof.
    unfold precision_part. rewrite <- sum_scale. apply sum_le. intros n Hn.
    destruct (totals n Hn) as [L B].
    assert (A := tangent_of_log (C n) (point n) (matched n Hn) (points n Hn)).
    assert (Q := chord_of_log (T n) (Tl n) (Th n) (chord n) L B (chords n Hn)).
    assert (P := points n Hn).
    assert (E : (C n - point n) / point n = / point n * C n - 1) by (field; lra).
    unfold Rdiv. lra.
  Qed.

  (** R2 without the brevity term, which is not negative. *)
  Theorem bleu_minorant_plain : precision_part <= height.
  Proof.
    unfold height. assert (H := precision_minorant).
    assert (0 <= brevity ref (T 0%nat)) by apply Rmax_l. lra.
  Qed.

  (** R2 with the brevity term. *)
  Theorem bleu_minorant : forall a reference steepness, 0 < a ->
    (reference = rl /\ steepness = / Th 0%nat) \/ (reference = rh /\ steepness = / Tl 0%nat) ->
    precision_part + (reference * (2 / a - steepness) - 1 - reference / (a * a) * T 0%nat + steepness * ref) <= height.
  Proof.
    intros a reference steepness Ha Choice. unfold height.
    assert (H := precision_minorant). destruct (totals 0%nat ltac:(lia)) as [L B]. destruct references as [R0 R1].
    assert (Q := brevity_minorant ref (T 0%nat) rl rh (Tl 0%nat) (Th 0%nat) a reference steepness R0 R1 L B Ha Choice).
    lra.
  Qed.
End Bleu.

(** BLEU = exp(-height): a height of at least h is a loss of at least 1 - exp(-h). *)
Theorem loss_of_height : forall h height, h <= height -> 1 - exp (- h) <= 1 - exp (- height).
Proof.
  intros h height H.
  destruct (Req_dec h height) as [->|N]; [lra|].
  assert (exp (- height) < exp (- h)) by (apply exp_increasing; lra). lra.
Qed.

(** ** R3: chrF *)

(** The weighted harmonic mean lies below its tangents, which pass through the origin. *)
Theorem tangent_of_harmonic_mean : forall q p r p0 r0,
  0 <= q -> 0 <= p -> 0 <= r -> 0 < q * p + r -> 0 < q * p0 + r0 ->
  (1 + q) * p * r / (q * p + r) <=
  (1 + q) * ((r0 / (q * p0 + r0)) * (r0 / (q * p0 + r0)) * p + q * ((p0 / (q * p0 + r0)) * (p0 / (q * p0 + r0))) * r).
Proof.
  intros q p r p0 r0 Q P R B B0.
  assert (E : (1 + q) * ((r0 / (q * p0 + r0)) * (r0 / (q * p0 + r0)) * p + q * ((p0 / (q * p0 + r0)) * (p0 / (q * p0 + r0))) * r)
            - (1 + q) * p * r / (q * p + r) =
            (1 + q) * (q * ((r0 * p - p0 * r) * (r0 * p - p0 * r))) / ((q * p + r) * ((q * p0 + r0) * (q * p0 + r0)))).
  { field. split; lra. }
  assert (0 <= (1 + q) * (q * ((r0 * p - p0 * r) * (r0 * p - p0 * r))) / ((q * p + r) * ((q * p0 + r0) * (q * p0 + r0)))); [|lra].
  apply Rmult_le_pos.
  - apply Rmult_le_pos; [lra|]. apply Rmult_le_pos; auto. apply Rle_0_sqr.
  - apply Rlt_le, Rinv_0_lt_compat. apply Rmult_lt_0_compat; auto. apply Rmult_lt_0_compat; auto.
Qed.

(** A share match / count lies below both McCormick envelopes with the chord of 1 / count. *)
Theorem share_above : forall m c ml mh cl ch match_ steepness,
  0 <= ml -> ml <= m <= mh -> 0 < cl -> cl <= c <= ch ->
  (match_ = mh /\ steepness = / ch) \/ (match_ = ml /\ steepness = / cl) ->
  m / c <= match_ * (/ cl + / ch - steepness) - match_ / (cl * ch) * c + steepness * m.
Proof.
  intros m c ml mh cl ch match_ steepness Hm [M1 M2] Hc [C1 C2] Choice.
  assert (Y1 : / ch <= / c) by (apply Rinv_le_contravar; lra).
  assert (Y2 : / c <= / cl) by (apply Rinv_le_contravar; lra).
  destruct (product_above m (/ c) ml mh (/ ch) (/ cl)) as [B1 B2]; auto.
  assert (K := chord_of_inverse c cl ch Hc (conj C1 C2)).
  assert (E : match_ * (/ cl + / ch - steepness) - match_ / (cl * ch) * c + steepness * m =
            match_ * (/ cl + / ch - c / (cl * ch)) + m * steepness - match_ * steepness) by (field; lra).
  rewrite E. unfold Rdiv at 1.
  destruct Choice as [[-> ->]|[-> ->]].
  - assert (mh * / c <= mh * (/ cl + / ch - c / (cl * ch))) by (apply Rmult_le_compat_l; auto; lra). lra.
  - assert (ml * / c <= ml * (/ cl + / ch - c / (cl * ch))) by (apply Rmult_le_compat_l; auto). lra.
Qed.

(** ** R4: a linear function of summed statistics is a sum over the lists *)

Theorem minorant_over_lists : forall K S (slope : nat -> R) (stat : nat -> nat -> nat -> R) constant (x : nat -> nat)
    (floor : nat -> R) height_,
  constant + sum K (fun k => slope k * sum S (fun s => stat s (x s) k)) <= height_ ->
  (forall s, (s < S)%nat -> floor s <= sum K (fun k => slope k * stat s (x s) k)) ->
  constant + sum S floor <= height_.
Proof.
  intros K S slope stat constant x floor height_ H F.
  assert (E : sum K (fun k => slope k * sum S (fun s => stat s (x s) k)) =
            sum S (fun s => sum K (fun k => slope k * stat s (x s) k))).
  { rewrite <- sum_swap. apply sum_ext. intros. now rewrite sum_scale. }
  rewrite E in H.
  assert (sum S floor <= sum S (fun s => sum K (fun k => slope k * stat s (x s) k))) by (apply sum_le; auto).
  lra.
Qed.

(** ** R5: linear fractions (Dinkelbach) *)

Section Fraction.
  Variable solution : Type.
  Variable admitted : solution -> Prop.
  Variable above below : solution -> R.
  Hypothesis denominator : forall x, admitted x -> 0 < below x.

  (** t is the least ratio if and only if the least of above - t below is 0. *)
  Theorem dinkelbach : forall t,
    ((forall x, admitted x -> t <= above x / below x) /\ (exists x, admitted x /\ above x / below x = t)) <->
    ((forall x, admitted x -> 0 <= above x - t * below x) /\ (exists x, admitted x /\ above x - t * below x = 0)).
  Proof.
    intros t.
    assert (E : forall x, admitted x -> above x = above x / below x * below x).
    { intros x A. field. specialize (denominator x A). lra. }
    split; intros [L [x [A Eq]]]; split.
    - intros y B. rewrite (E y B). specialize (L y B). specialize (denominator y B). nra.
    - exists x. split; auto. rewrite (E x A), Eq. lra.
    - intros y B. specialize (L y B). specialize (denominator y B).
      apply Rmult_le_reg_r with (below y); auto. rewrite <- (E y B). lra.
    - exists x. split; auto. specialize (denominator x A).
      replace (above x) with (t * below x) by lra. field. lra.
  Qed.

  (** A solution with above - t below < 0 has a smaller ratio, which is the next t. *)
  Theorem dinkelbach_step : forall t x, admitted x -> above x - t * below x < 0 -> above x / below x < t.
  Proof.
    intros t x A L. specialize (denominator x A). apply Rmult_lt_reg_r with (below x); auto.
    unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra.
  Qed.

  (** A lower bound on above - t below, at any t and of any sign, bounds the ratio. *)
  Theorem dinkelbach_bound : forall t bound least most x,
    0 < least -> admitted x -> least <= below x <= most -> bound <= above x - t * below x ->
    t + Rmin (bound / least) (bound / most) <= above x / below x.
  Proof.
    intros t bound least most x Hl A [L M] B. specialize (denominator x A).
    assert (E : above x / below x = t + (above x - t * below x) / below x) by (field; lra).
    rewrite E.
    assert (bound / below x <= (above x - t * below x) / below x).
    { apply Rmult_le_compat_r; auto. apply Rlt_le, Rinv_0_lt_compat; auto. }
    assert (Rmin (bound / least) (bound / most) <= bound / below x); [|lra].
    assert (I1 : / below x <= / least) by (apply Rinv_le_contravar; lra).
    assert (I2 : / most <= / below x) by (apply Rinv_le_contravar; lra).
    destruct (Rle_dec 0 bound).
    - apply Rle_trans with (bound / most); [apply Rmin_r|]. unfold Rdiv. apply Rmult_le_compat_l; auto.
    - apply Rle_trans with (bound / least); [apply Rmin_l|]. unfold Rdiv. nra.
  Qed.
End Fraction.

(** If the denominator may be 0, and the loss is then 1, a t of at most 1 is still a bound. *)
Theorem dinkelbach_with_zero : forall above below t, t <= 1 -> 0 <= below -> 0 <= above - t * below ->
  t <= (if Rlt_dec 0 below then above / below else 1).
Proof.
  intros above below t T B H. destruct (Rlt_dec 0 below) as [P|]; auto.
  apply Rmult_le_reg_r with below; auto. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra.
Qed.
