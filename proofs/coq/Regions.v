(** Regions: a cone of weights around given ones (G1 - G3), limits as lists of two (G4), limits with a
    reference (G5), and equations (G6). *)

From Coq Require Import Reals Lra Lia List.
From Lpmert Require Import Vectors Selections Cores.
Import ListNotations.
Open Scope R_scope.

Section Cap.
  Variable D : nat.

  Notation "u · v" := (dot D u v) (at level 40).
  Notation "| u |" := (norm D u) (at level 39, u at level 0).

  (** cos(w, w0) >= t, without a division. *)
  Definition in_cap (t : R) (w0 w : vec) : Prop := ~ same D w zero /\ t * |w0| * |w| <= w0 · w.

  (** ** G1: multipliers bound the cosine *)

  Lemma dual : forall m b (lambda : nat -> R) w0 w,
    plus w0 (combine m lambda b) · w = w0 · w + sum m (fun k => lambda k * (b k · w)).
  Proof.
    intros. rewrite dot_plus. f_equal. rewrite dot_comm, dot_combine. apply sum_ext. intros.
    now rewrite dot_comm.
  Qed.

  Theorem cosine_bound : forall m b (lambda : nat -> R) w0 w,
    (forall k, (k < m)%nat -> 0 <= lambda k) -> (forall k, (k < m)%nat -> 0 < lambda k -> 0 <= b k · w) ->
    w0 · w <= |plus w0 (combine m lambda b)| * |w|.
  Proof.
    intros m b lambda w0 w P C. apply Rle_trans with (plus w0 (combine m lambda b) · w).
    - rewrite dual. assert (0 <= sum m (fun k => lambda k * (b k · w))); [|lra].
      apply sum_nonneg. intros k Hk. destruct (Rle_lt_or_eq_dec 0 (lambda k) (P k Hk)) as [L|E].
      + apply Rmult_le_pos; auto.
      + rewrite <- E. lra.
    - apply dot_le_norms.
  Qed.

  Lemma norm_positive : forall w, ~ same D w zero -> 0 < |w|.
  Proof.
    intros w N. destruct (Rle_lt_or_eq_dec 0 (|w|) (norm_nonneg D w)) as [|E]; auto.
    exfalso. apply N, norm_zero. auto.
  Qed.

  (** A length below t |w0| proves that the closed cell misses the cap. *)
  Theorem cap_refuted : forall m b (lambda : nat -> R) w0 t,
    (forall k, (k < m)%nat -> 0 <= lambda k) -> |plus w0 (combine m lambda b)| < t * |w0| ->
    forall w, closed_cell D m b w -> ~ in_cap t w0 w.
  Proof.
    intros m b lambda w0 t P L w C [N H].
    assert (B := cosine_bound m b lambda w0 w P (fun k Hk _ => C k Hk)). assert (W := norm_positive w N). nra.
  Qed.

  (** For choices: the lists of the rows with a positive multiplier are a core within the cap. *)
  Theorem capped_core : forall size feature n owner other (lambda : nat -> R) x y part w0 t,
    (forall k, (k < n)%nat -> 0 <= lambda k) ->
    |plus w0 (combine n lambda (comparison feature owner other x))| < t * |w0| ->
    (forall k, (k < n)%nat -> 0 < lambda k ->
       In (owner k) part /\ (other k < size (owner k))%nat /\ other k <> x (owner k) /\ y (owner k) = x (owner k)) ->
    ~ attainable D (in_cap t w0) size feature part y.
  Proof.
    intros size feature n owner other lambda x y part w0 t P L H [w [[N C] [V B]]].
    assert (Q := cosine_bound n (comparison feature owner other x) lambda w0 w P).
    assert (W := norm_positive w N).
    assert (w0 · w <= |plus w0 (combine n lambda (comparison feature owner other x))| * |w|); [|nra].
    apply Q. intros k Hk Lk. destruct (H k Hk Lk) as [I [O [Ne E]]].
    unfold comparison. rewrite dot_minus. specialize (B (owner k) I (other k) O). rewrite E in B.
    specialize (B Ne). lra.
  Qed.

  (** For the open cell a length of t |w0| itself is enough, if a multiplier is positive. *)
  Theorem cap_refuted_open : forall m b (lambda : nat -> R) w0 t,
    (forall k, (k < m)%nat -> 0 <= lambda k) -> (exists k, (k < m)%nat /\ 0 < lambda k) ->
    |plus w0 (combine m lambda b)| <= t * |w0| ->
    forall w, open_cell D m b w -> ~ in_cap t w0 w.
  Proof.
    intros m b lambda w0 t P [k [Hk L]] Len w C [N H].
    assert (B := dot_le_norms D (plus w0 (combine m lambda b)) w). rewrite dual in B.
    assert (W := norm_nonneg D w).
    assert (lambda k * (b k · w) <= sum m (fun k => lambda k * (b k · w))).
    { apply (sum_member m (fun k => lambda k * (b k · w))); auto.
      intros i Hi. apply Rmult_le_pos; auto. apply Rlt_le, C, Hi. }
    assert (0 < lambda k * (b k · w)) by (apply Rmult_lt_0_compat; auto).
    assert (|plus w0 (combine m lambda b)| * |w| <= t * |w0| * |w|) by (apply Rmult_le_compat_r; auto). lra.
  Qed.

  (** The projection p of w0 on the closed cell, known by its multipliers, has the largest cosine:
      |p| / |w0|. *)
  Theorem projection_is_best : forall m b (lambda : nat -> R) w0,
    let p := plus w0 (combine m lambda b) in
    (forall k, (k < m)%nat -> 0 <= lambda k) -> closed_cell D m b p ->
    (forall k, (k < m)%nat -> lambda k * (b k · p) = 0) ->
    w0 · p = |p| * |p| /\ forall w, closed_cell D m b w -> w0 · w <= |p| * |w|.
  Proof.
    intros m b lambda w0 p P C Z. split.
    - rewrite norm_square. assert (E := dual m b lambda w0 p). fold p in E.
      rewrite (sum_zero m (fun k => lambda k * (b k · p))) in E by auto. lra.
    - intros w Cw. apply cosine_bound; auto.
  Qed.

  (** ** G2: when the open cell meets the cap *)

  Lemma norm_triangle : forall u v, |plus u v| <= |u| + |v|.
  Proof.
    intros u v. assert (U := norm_nonneg D u). assert (V := norm_nonneg D v).
    apply Rsqr_incr_0_var; [unfold Rsqr|lra].
    rewrite norm_square, dot_plus, !dot_plus_r, (dot_comm D v u).
    assert (H := dot_le_norms D u v). assert (Hu := norm_square D u). assert (Hv := norm_square D v). nra.
  Qed.

  Lemma norm_times : forall a u, 0 <= a -> |times a u| = a * |u|.
  Proof.
    intros a u A. assert (U := norm_nonneg D u). apply Rsqr_inj; [apply norm_nonneg|nra|].
    unfold Rsqr. rewrite norm_square, dot_times, dot_times_r.
    replace (a * |u| * (a * |u|)) with (a * (a * (|u| * |u|))) by ring. now rewrite norm_square.
  Qed.

  (** G2: for 0 <= t < 1 an open cell meets the cap if and only if it is not empty and some weights of its closure have
      a cosine above t; equality is not enough. *)
  Theorem open_cell_meets_cap : forall m b w0 t, 0 <= t < 1 -> ~ same D w0 zero ->
    ((exists w, open_cell D m b w /\ in_cap t w0 w) <->
     ((exists u, open_cell D m b u) /\ exists w, closed_cell D m b w /\ t * |w0| * |w| < w0 · w)).
  Proof.
    intros m b w0 t [T0 T1] N0. assert (W0 := norm_positive w0 N0). split.
    - intros [w [O [N H]]]. split; [exists w; auto|].
      destruct (small_step D m b w w0 O) as [e [E He]].
      exists (plus w (times e w0)). split.
      + intros k Hk. apply Rlt_le, He; auto. lra.
      + (* both sides squared *)
        assert (W := norm_positive w N). assert (Sq := norm_square D w). assert (Sq0 := norm_square D w0).
        assert (Sn := norm_square D (plus w (times e w0))).
        rewrite dot_plus, !dot_plus_r, !dot_times, !dot_times_r, (dot_comm D w w0), <- Sq, <- Sq0 in Sn.
        rewrite dot_plus_r, dot_times_r, <- Sq0.
        assert (A : 0 <= w0 · w) by (apply Rle_trans with (t * |w0| * |w|); auto; repeat apply Rmult_le_pos; lra).
        set (a := w0 · w) in *. set (n := |w0|) in *. set (l := |w|) in *.
        set (h := |plus w (times e w0)|) in *.
        assert (Hh : 0 <= h) by apply norm_nonneg.
        apply Rsqr_incrst_0; unfold Rsqr; [|repeat apply Rmult_le_pos; lra|nra].
        replace (t * n * h * (t * n * h)) with (t * t * (n * n) * (h * h)) by ring. rewrite Sn.
        assert (K : t * t * (n * n) * (l * l) <= a * a).
        { replace (t * t * (n * n) * (l * l)) with (t * n * l * (t * n * l)) by ring.
          apply Rmult_le_compat; auto; repeat apply Rmult_le_pos; lra. }
        assert (P : 0 < e * (n * n) * (2 * a + e * (n * n))).
        { apply Rmult_lt_0_compat; [apply Rmult_lt_0_compat; nra|].
          assert (0 < e * (n * n)) by (apply Rmult_lt_0_compat; nra). lra. }
        assert (t * t < 1) by nra.
        assert (t * t * (e * (n * n) * (2 * a + e * (n * n))) < 1 * (e * (n * n) * (2 * a + e * (n * n)))).
        { apply Rmult_lt_compat_r; auto. }
        lra.
    - intros [[u U] [w [C H]]].
      pose (gap := w0 · w - t * |w0| * |w|). assert (G : 0 < gap) by (unfold gap; lra).
      assert (Un := norm_nonneg D u).
      pose (slope := t * |w0| * |u| + Rabs (w0 · u) + 1).
      assert (S : 0 < slope).
      { unfold slope. assert (0 <= Rabs (w0 · u)) by apply Rabs_pos.
        assert (0 <= t * |w0| * |u|) by (repeat apply Rmult_le_pos; lra). lra. }
      pose (e := gap / slope / 2). assert (E : 0 < e).
      { unfold e, Rdiv. repeat apply Rmult_lt_0_compat; auto; [apply Rinv_0_lt_compat; auto | lra]. }
      assert (Es : e * slope = gap / 2) by (unfold e; field; lra).
      exists (plus w (times e u)).
      assert (L : t * |w0| * |plus w (times e u)| < w0 · plus w (times e u)).
      { rewrite dot_plus_r, dot_times_r.
        assert (Tr := norm_triangle w (times e u)). rewrite norm_times in Tr by lra.
        assert (t * |w0| * |plus w (times e u)| <= t * |w0| * (|w| + e * |u|)).
        { apply Rmult_le_compat_l; auto. apply Rmult_le_pos; lra. }
        assert (- (e * Rabs (w0 · u)) <= e * (w0 · u)).
        { unfold Rabs. destruct (Rcase_abs (w0 · u)); nra. }
        unfold slope, gap in *. lra. }
      split; [|split].
      + intros k Hk. rewrite dot_plus_r, dot_times_r. specialize (C k Hk). specialize (U k Hk).
        assert (0 < e * (b k · u)) by (apply Rmult_lt_0_compat; auto). lra.
      + intros Z. rewrite (dot_same_r D w0 _ zero Z) in L. rewrite dot_comm, dot_zero in L.
        assert (0 <= t * |w0| * |plus w (times e u)|) by (repeat apply Rmult_le_pos; try apply norm_nonneg; lra). lra.
      + lra.
  Qed.

  (** ** G3: order on the whole cap *)

  (** Let d = g - h with d.w0 >= s |d| |w0|, where s is the sine of the cap's half angle. Then g is behind h nowhere on
      the cap, so h is strictly best nowhere on it. *)
  Theorem order_on_the_cap : forall d w0 w s t, 0 <= s -> 0 <= t -> s * s + t * t = 1 -> ~ same D w0 zero ->
    s * |d| * |w0| <= d · w0 -> t * |w0| * |w| <= w0 · w -> 0 <= d · w.
  Proof.
    intros d w0 w s t S T One N0 Hd Hw.
    assert (W0 := norm_positive w0 N0). assert (Dn := norm_nonneg D d). assert (Wn := norm_nonneg D w).
    set (n := |w0| * |w0|).
    assert (Hn : 0 < n) by (unfold n; nra).
    (* Cauchy-Schwarz for the parts orthogonal to w0, times n *)
    assert (CS := cauchy_schwarz D (minus (times n d) (times (d · w0) w0)) (minus (times n w) (times (w0 · w) w0))).
    rewrite !dot_minus, !dot_minus_r, !dot_times, !dot_times_r, (dot_comm D w0 d), (dot_comm D w w0) in CS.
    rewrite <- !norm_square in CS. fold n in CS.
    set (A := d · w0) in *. set (B := w0 · w) in *. set (X := d · w) in *.
    assert (A0 : 0 <= A) by (apply Rle_trans with (s * |d| * |w0|); auto; repeat apply Rmult_le_pos; lra).
    assert (B0 : 0 <= B) by (apply Rle_trans with (t * |w0| * |w|); auto; repeat apply Rmult_le_pos; lra).
    set (dd := |d| * |d|) in *. set (ww := |w| * |w|) in *.
    assert (Dd : 0 <= dd) by (unfold dd; nra). assert (Ww : 0 <= ww) by (unfold ww; nra).
    assert (KA : s * s * dd * n <= A * A).
    { replace (s * s * dd * n) with (s * |d| * |w0| * (s * |d| * |w0|)) by (unfold dd, n; ring).
      apply Rmult_le_compat; auto; repeat apply Rmult_le_pos; lra. }
    assert (KB : t * t * ww * n <= B * B).
    { replace (t * t * ww * n) with (t * |w0| * |w| * (t * |w0| * |w|)) by (unfold ww, n; ring).
      apply Rmult_le_compat; auto; repeat apply Rmult_le_pos; lra. }
    assert (CS' : n * n * ((n * X - A * B) * (n * X - A * B)) <= n * n * ((n * dd - A * A) * (n * ww - B * B))).
    { match type of CS with ?l <= ?r =>
        replace (n * n * ((n * X - A * B) * (n * X - A * B))) with l by ring;
        replace (n * n * ((n * dd - A * A) * (n * ww - B * B))) with r by ring end. exact CS. }
    apply Rmult_le_reg_l in CS'; [|nra].
    (* n dd - A^2 <= t^2 n dd, n ww - B^2 <= s^2 n ww *)
    assert (QA : n * dd - A * A <= t * t * (n * dd)) by (replace (t * t) with (1 - s * s) by lra; lra).
    assert (QB : n * ww - B * B <= s * s * (n * ww)) by (replace (s * s) with (1 - t * t) by lra; lra).
    assert (PA : 0 <= n * dd - A * A).
    { assert (H := cauchy_schwarz D d w0). rewrite <- !norm_square in H. fold A in H. unfold n, dd. lra. }
    assert (PB : 0 <= n * ww - B * B).
    { assert (H := cauchy_schwarz D w0 w). rewrite <- !norm_square in H. fold B in H. unfold n, ww. lra. }
    assert (U1 : (n * dd - A * A) * (n * ww - B * B) <= t * t * (n * dd) * (s * s * (n * ww))).
    { apply Rmult_le_compat; auto. }
    assert (U2 : s * s * dd * n * (t * t * ww * n) <= A * A * (B * B)).
    { apply Rmult_le_compat; auto; repeat apply Rmult_le_pos; lra. }
    assert (U : (n * X - A * B) * (n * X - A * B) <= A * B * (A * B)) by lra.
    assert (AB : 0 <= A * B) by (apply Rmult_le_pos; auto).
    assert (0 <= n * X).
    { destruct (Rle_dec 0 (n * X)) as [|Q]; auto. exfalso.
      assert (0 < (n * X) * (n * X)) by nra. assert (0 <= - (n * X) * (A * B)) by (apply Rmult_le_pos; lra). lra. }
    destruct (Rle_dec 0 X) as [|Q]; auto. exfalso. nra.
  Qed.

  (** The condition is sharp: if it fails, h wins somewhere on the cap. *)
  Theorem order_on_the_cap_is_sharp : forall d w0 s t, 0 < s -> 0 <= t -> s * s + t * t = 1 -> ~ same D w0 zero ->
    d · w0 < s * |d| * |w0| -> exists w, in_cap t w0 w /\ d · w < 0.
  Proof.
    intros d w0 s t S T One N0 H.
    assert (W0 := norm_positive w0 N0). assert (Dn := norm_nonneg D d).
    assert (S1 : s <= 1) by nra. assert (T1 : t <= 1) by nra.
    set (n := |w0| * |w0|). assert (Hn : 0 < n) by (unfold n; nra).
    set (A := d · w0) in *.
    pose (p := minus d (times (A / n) w0)).
    assert (Sq0 : w0 · w0 = n) by (unfold n; now rewrite norm_square).
    assert (Pw : p · w0 = 0).
    { unfold p. rewrite dot_minus, dot_times, Sq0. fold A. field. lra. }
    assert (Pd : p · p = |d| * |d| - A * A / n).
    { unfold p at 2. rewrite dot_minus_r, dot_times_r, Pw. unfold p. rewrite dot_minus, dot_times, (dot_comm D w0 d).
      fold A. rewrite norm_square. field. lra. }
    assert (DP : d · p = p · p).
    { unfold p at 1. rewrite dot_minus_r, dot_times_r. fold A. rewrite Pd, norm_square. field. lra. }
    destruct (Req_dec (|p|) 0) as [Zp|Np].
    - (* d is parallel to w0, and then opposite to it *)
      assert (E : p · p = 0) by (rewrite <- norm_square, Zp; ring). rewrite Pd in E.
      assert (Q : A * A = |d| * |d| * n) by (replace (A * A) with (n * (A * A / n)) by (field; lra); nra).
      assert (A < 0).
      { destruct (Rlt_dec A 0) as [|Pos]; auto. exfalso.
        assert (B : A * A < s * |d| * |w0| * (s * |d| * |w0|)) by (apply Rmult_le_0_lt_compat; lra).
        rewrite Q in B. unfold n in B.
        assert (0 <= |d| * |d| * (|w0| * |w0|)) by (repeat apply Rmult_le_pos; lra).
        assert (s * s <= 1) by nra. nra. }
      exists w0. repeat split; auto. rewrite Sq0. unfold n.
      assert (t * (|w0| * |w0|) <= 1 * (|w0| * |w0|)) by (apply Rmult_le_compat_r; nra). lra.
    - assert (Pp : 0 < |p|) by (assert (G := norm_nonneg D p); lra).
      exists (minus (times (t / |w0|) w0) (times (s / |p|) p)).
      assert (Len : |minus (times (t / |w0|) w0) (times (s / |p|) p)| = 1).
      { rewrite <- sqrt_1. unfold norm at 1. f_equal.
        rewrite dot_minus, !dot_minus_r, !dot_times, !dot_times_r, (dot_comm D w0 p), Pw, Sq0.
        rewrite <- (norm_square D p). unfold n. rewrite <- One. field. split; lra. }
      assert (Along : w0 · minus (times (t / |w0|) w0) (times (s / |p|) p) = t * |w0|).
      { rewrite dot_minus_r, !dot_times_r, (dot_comm D w0 p), Pw, Sq0. unfold n. field. lra. }
      split; [split|].
      + intros Z. assert (E : |minus (times (t / |w0|) w0) (times (s / |p|) p)| = 0).
        { unfold norm. rewrite (dot_same D _ zero _ Z), dot_zero. apply sqrt_0. }
        lra.
      + rewrite Len, Along. lra.
      + rewrite dot_minus_r, !dot_times_r, DP, <- (norm_square D p). fold A.
        replace (t / |w0| * A - s / |p| * (|p| * |p|)) with (t * A / |w0| - s * |p|) by (field; lra).
        destruct (Rlt_dec A 0) as [Neg|Pos].
        * assert (t * A / |w0| <= 0).
          { replace (t * A / |w0|) with (- (t * - A / |w0|)) by (field; lra).
            assert (0 <= t * - A / |w0|); [|lra].
            apply Rmult_le_pos; [apply Rmult_le_pos; lra | apply Rlt_le, Rinv_0_lt_compat; auto]. }
          assert (0 < s * |p|) by (apply Rmult_lt_0_compat; auto). lra.
        * (* A / |w0| < s |d|, so |p| > t |d| *)
          set (a := A / |w0|). assert (Ea : t * A / |w0| = t * a) by (unfold a; field; lra). rewrite Ea.
          assert (Ha : a < s * |d|).
          { unfold a. apply Rmult_lt_reg_r with (|w0|); auto.
            replace (A / |w0| * |w0|) with A by (field; lra). exact H. }
          assert (Ha0 : 0 <= a) by (unfold a; apply Rmult_le_pos; [lra | apply Rlt_le, Rinv_0_lt_compat; auto]).
          assert (Ep : |p| * |p| = |d| * |d| - a * a).
          { rewrite norm_square, Pd. unfold a, n. field. lra. }
          assert (aa : a * a < s * |d| * (s * |d|)) by (apply Rmult_le_0_lt_compat; lra).
          assert (Lp : t * |d| < |p|).
          { apply Rsqr_incrst_0; unfold Rsqr; [|apply Rmult_le_pos; lra|lra].
            rewrite Ep. replace (t * |d| * (t * |d|)) with (t * t * (|d| * |d|)) by ring.
            replace (t * t) with (1 - s * s) by lra. lra. }
          assert (t * a <= t * (s * |d|)) by (apply Rmult_le_compat_l; lra).
          assert (s * (t * |d|) < s * |p|) by (apply Rmult_lt_compat_l; auto). lra.
  Qed.

  (** ** G4: limits on the weights *)

  (** If the limits have an inside, an open cell that meets the limits meets their inside. *)
  Theorem inside_the_limits : forall m b r (a : nat -> vec) u w,
    open_cell D r a u -> open_cell D m b w -> closed_cell D r a w ->
    exists w', open_cell D m b w' /\ open_cell D r a w'.
  Proof.
    intros m b r a u w U O C. destruct (small_step D m b w u O) as [e [E He]].
    exists (plus w (times e u)). split; [apply He; lra|].
    intros k Hk. rewrite dot_plus_r, dot_times_r. specialize (C k Hk). specialize (U k Hk).
    assert (0 < e * (a k · u)) by (apply Rmult_lt_0_compat; auto). lra.
  Qed.

  (** A list of a limit's normal and 0, in which 0 may not win, asks for a positive product with the normal. *)
  Theorem limit_as_a_list : forall (a w : vec), zero · w < a · w <-> 0 < a · w.
  Proof. intros. now rewrite dot_zero. Qed.

  (** ** G5: limits that are not 0, relative to a reference *)

  (** Weights are scaled so that reference.w = v. Then row.w >= limit is equivalent to a.w >= 0 at any scale, where
      a = |v| row - limit reference for v > 0, and a = |v| row + limit reference for v < 0. *)
  Theorem limit_with_reference : forall row reference limit v w, v <> 0 -> 0 < v * (reference · w) ->
    (limit <= row · times (v / (reference · w)) w <->
     0 <= minus (times (Rabs v) row) (times (if Rlt_dec v 0 then - limit else limit) reference) · w).
  Proof.
    intros row reference limit v w V P. rewrite dot_times_r, dot_minus, !dot_times.
    set (x := row · w). set (y := reference · w) in *.
    unfold Rabs. destruct (Rcase_abs v) as [Neg|Pos]; destruct (Rlt_dec v 0) as [L|L]; try lra.
    - assert (Y : 0 < - y) by nra.
      assert (E : v / y * x - limit = (- v * x - - limit * y) / - y) by (field; lra).
      split; intros H.
      + assert (Q : 0 <= (- v * x - - limit * y) / - y) by lra.
        apply Rmult_le_compat_r with (r := - y) in Q; [|lra].
        unfold Rdiv in Q. rewrite Rmult_assoc, Rinv_l in Q by lra. lra.
      + assert (0 <= (- v * x - - limit * y) / - y); [|lra].
        apply Rmult_le_pos; auto. apply Rlt_le, Rinv_0_lt_compat; auto.
    - assert (Y : 0 < y) by nra.
      assert (E : v / y * x - limit = (v * x - limit * y) / y) by (field; lra).
      split; intros H.
      + assert (Q : 0 <= (v * x - limit * y) / y) by lra.
        apply Rmult_le_compat_r with (r := y) in Q; [|lra].
        unfold Rdiv in Q. rewrite Rmult_assoc, Rinv_l in Q by lra. lra.
      + assert (0 <= (v * x - limit * y) / y); [|lra].
        apply Rmult_le_pos; auto. apply Rlt_le, Rinv_0_lt_compat; auto.
  Qed.
End Cap.

(** ** G6: equations

    Let w = sum_j u_j v_j for a basis v. The score of h at w is that of the products of h with the basis at u. *)
Theorem equations : forall D n (basis : nat -> vec) u h,
  dot D h (combine n u basis) = dot n (fun j => dot D h (basis j)) u.
Proof. intros. rewrite dot_combine. apply sum_ext. intros. ring. Qed.

(** An orthonormal basis keeps lengths. The cap of c becomes a cap of c', the products of c with the basis:
    t |c| |w| <= c.w if and only if (t |c| / |c'|) |c'| |u| <= c'.u. *)
Theorem equations_and_cap : forall D n (basis : nat -> vec) u (c : vec) t,
  (forall i j, (i < n)%nat -> (j < n)%nat -> dot D (basis i) (basis j) = if Nat.eqb i j then 1 else 0) ->
  let w := combine n u basis in let c' := fun j => dot D c (basis j) in
  0 < norm n c' ->
  norm D w = norm n u /\
  (t * norm D c * norm D w <= dot D c w <-> t * norm D c / norm n c' * norm n c' * norm n u <= dot n c' u).
Proof.
  intros D n basis u c t O w c' P.
  assert (E : dot D w w = dot n u u).
  { unfold w at 2. rewrite dot_combine. unfold dot at 2. apply sum_ext. intros k Hk. f_equal.
    unfold w. rewrite dot_comm, dot_combine. rewrite (sum_ext n _ (single k (u k))).
    - now apply sum_single.
    - intros i Hi. rewrite O by auto. unfold single. rewrite (Nat.eqb_sym k i). destruct (Nat.eqb_spec i k) as [->|]; ring. }
  assert (L : norm D w = norm n u) by (unfold norm; now rewrite E).
  split; auto. rewrite L. unfold w. rewrite equations. fold c'.
  replace (t * norm D c / norm n c' * norm n c' * norm n u) with (t * norm D c * norm n u) by (field; lra).
  tauto.
Qed.
