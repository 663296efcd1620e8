(** Rows without common weights: certificates (C1), certificates of at most D + 1 rows (C2), and weights that only tie
    the rows of a core (C3). *)

From Coq Require Import Reals Lra Lia List.
From Lpmert Require Import Vectors.
Import ListNotations.
Open Scope R_scope.

Section Rows.
  Variable D : nat.

  (** The multipliers m are non-negative and not all 0, and the rows times m add up to 0. *)
  Definition balanced (n : nat) (m : nat -> R) (r : nat -> vec) : Prop :=
    (forall k, (k < n)%nat -> 0 <= m k) /\
    (exists k, (k < n)%nat /\ 0 < m k) /\
    same D (combine n m r) zero.

  (** C1 (Gordan, the direction that certificates use): only rows with positive multipliers matter. *)
  Theorem certificate : forall n m r, balanced n m r ->
    ~ exists w, forall k, (k < n)%nat -> 0 < m k -> 0 < dot D (r k) w.
  Proof.
    intros n m r [P [[k [Hk Mk]] Z]] [w W].
    assert (E : sum n (fun i => m i * dot D w (r i)) = 0).
    { rewrite <- dot_combine, dot_comm, (dot_same D _ _ w Z). apply dot_zero. }
    assert (0 < m k * dot D w (r k)).
    { apply Rmult_lt_0_compat; auto. rewrite dot_comm. auto. }
    assert (m k * dot D w (r k) <= sum n (fun i => m i * dot D w (r i))).
    { apply (sum_member n (fun i => m i * dot D w (r i))); auto.
      intros i Hi. specialize (P i Hi). destruct (Rle_lt_or_eq_dec 0 (m i) P) as [L|L].
      - apply Rlt_le, Rmult_lt_0_compat; auto. rewrite dot_comm. auto.
      - rewrite <- L. lra. }
    lra.
  Qed.

  (** C3: weights that lose no comparison of a core tie all of its comparisons. *)
  Theorem only_ties : forall n m r, balanced n m r ->
    forall w, (forall k, (k < n)%nat -> 0 < m k -> 0 <= dot D (r k) w) ->
    forall k, (k < n)%nat -> 0 < m k -> dot D (r k) w = 0.
  Proof.
    intros n m r [P [_ Z]] w W k Hk Mk.
    assert (E : sum n (fun i => m i * dot D w (r i)) = 0).
    { rewrite <- dot_combine, dot_comm, (dot_same D _ _ w Z). apply dot_zero. }
    assert (m k * dot D w (r k) <= sum n (fun i => m i * dot D w (r i))).
    { apply (sum_member n (fun i => m i * dot D w (r i))); auto.
      intros i Hi. specialize (P i Hi). destruct (Rle_lt_or_eq_dec 0 (m i) P) as [L|L].
      - apply Rmult_le_pos; auto. rewrite dot_comm. auto.
      - rewrite <- L. lra. }
    specialize (W k Hk Mk). rewrite dot_comm in W |- *.
    destruct (Rle_lt_or_eq_dec 0 _ W) as [L|L]; auto. nra.
  Qed.

  (** ** The other direction, and the size of a core *)

  (** Sums of positive multiples of at least one row. *)
  Inductive positive (rows : list vec) : vec -> Prop :=
  | row : forall r, In r rows -> positive rows r
  | sum_of : forall u v, positive rows u -> positive rows v -> positive rows (plus u v)
  | multiple : forall a u, 0 < a -> positive rows u -> positive rows (times a u).
End Rows.

Lemma positive_trans : forall rows rows' v,
  (forall r, In r rows' -> positive rows r) -> positive rows' v -> positive rows v.
Proof.
  intros rows rows' v H P. induction P; auto.
  - now apply sum_of.
  - now apply multiple.
Qed.

Lemma positive_entry : forall rows d v, (forall r, In r rows -> r d = 0) -> positive rows v -> v d = 0.
Proof.
  intros rows d v H P. induction P; auto.
  - unfold plus. lra.
  - unfold times. rewrite IHP. ring.
Qed.

(** A number between finitely many lower and upper limits. *)
Lemma between : forall low high : list R,
  (forall l h, In l low -> In h high -> l < h) ->
  exists x, (forall l, In l low -> l < x) /\ (forall h, In h high -> x < h).
Proof.
  assert (Above : forall l : list R, exists x, forall y, In y l -> y < x).
  { induction l as [|a l [x X]]; [exists 0; intros y []|].
    exists (Rmax x a + 1). intros y [<-|I].
    - assert (H := Rmax_r x a). lra.
    - assert (H := Rmax_l x a). specialize (X y I). lra. }
  induction low as [|a low IH]; intros high H.
  - destruct (Above (map Ropp high)) as [x X]. exists (- x). split; [intros l []|].
    intros h I. assert (- h < x) by (apply X, in_map, I). lra.
  - destruct (IH high) as [x [L U]]; [intros; apply H; simpl; auto|].
    destruct (Rlt_dec a x) as [|N].
    + exists x. split; auto. intros l [<-|I]; auto.
    + (* between a and the upper limits *)
      assert (exists y, a < y /\ forall h, In h high -> y < h) as [y [A Y]].
      { assert (B : forall h, In h high -> a < h) by (intros; apply H; simpl; auto).
        clear -B. induction high as [|h high IH].
        - exists (a + 1). split; [lra|intros h []].
        - destruct IH as [y [A Y]]; [intros; apply B; simpl; auto|].
          assert (a < h) by (apply B; simpl; auto).
          exists ((a + Rmin y h) / 2). assert (Hl := Rmin_l y h). assert (Hr := Rmin_r y h).
          assert (a < Rmin y h) by (apply Rmin_glb_lt; auto).
          split; [lra|]. intros k [<-|I]; [lra|]. specialize (Y k I). lra. }
      exists y. split; auto. intros l [<-|I]; auto. specialize (L l I). lra.
Qed.

(** Gordan by Fourier and Motzkin's elimination of the last weight. *)
Lemma alternative : forall D (rows : list vec),
  (exists w, forall r, In r rows -> 0 < dot D r w) \/ (exists v, positive rows v /\ same D v zero).
Proof.
  induction D as [|D IH]; intros rows.
  - destruct rows as [|r rows].
    + left. exists zero. intros r [].
    + right. exists r. split; [apply row; simpl; auto | intros d Hd; lia].
  - pose (P := filter (fun r : vec => if Rlt_dec 0 (r D) then true else false) rows).
    pose (N := filter (fun r : vec => if Rlt_dec (r D) 0 then true else false) rows).
    pose (Z := filter (fun r : vec => if Req_EM_T (r D) 0 then true else false) rows).
    pose (mix := fun p q : vec => plus (times (/ p D) p) (times (/ - q D) q)).
    pose (new := Z ++ flat_map (fun p => map (mix p) N) P).
    assert (InP : forall r, In r P <-> In r rows /\ 0 < r D).
    { intros r. unfold P. rewrite filter_In. destruct (Rlt_dec 0 (r D)); intuition; try discriminate. }
    assert (InN : forall r, In r N <-> In r rows /\ r D < 0).
    { intros r. unfold N. rewrite filter_In. destruct (Rlt_dec (r D) 0); intuition; try discriminate. }
    assert (InZ : forall r, In r Z <-> In r rows /\ r D = 0).
    { intros r. unfold Z. rewrite filter_In. destruct (Req_EM_T (r D) 0); intuition; try discriminate. }
    assert (InNew : forall r, In r new <-> In r Z \/ exists p q, In p P /\ In q N /\ r = mix p q).
    { intros r. unfold new. rewrite in_app_iff, in_flat_map. split; (intros [H|H]; [left; auto|right]).
      - destruct H as [p [Hp H]]. apply in_map_iff in H. destruct H as [q [E Hq]]. exists p, q. auto.
      - destruct H as [p [q [Hp [Hq ->]]]]. exists p. split; auto. now apply in_map. }
    destruct (IH new) as [[w W]|[v [Pv Zv]]].
    + left.
      destruct (between (map (fun p => - (dot D p w) / p D) P) (map (fun q => dot D q w / - q D) N)) as [x [L U]].
      { intros l h Il Ih. apply in_map_iff in Il. apply in_map_iff in Ih.
        destruct Il as [p [<- Hp]]. destruct Ih as [q [<- Hq]].
        assert (H : 0 < dot D (mix p q) w) by (apply W, InNew; right; exists p, q; auto).
        unfold mix in H. rewrite dot_plus, !dot_times in H. unfold Rdiv. lra. }
      exists (fun d => if Nat.eqb d D then x else w d).
      assert (E : forall r : vec, dot (S D) r (fun d => if Nat.eqb d D then x else w d) = dot D r w + r D * x).
      { intros r. unfold dot. simpl. rewrite Nat.eqb_refl. f_equal. apply sum_ext. intros d Hd.
        destruct (Nat.eqb_spec d D); [lia | reflexivity]. }
      intros r Ir. rewrite E. destruct (Rtotal_order (r D) 0) as [Neg|[Zero|Pos]].
      * assert (H : x < dot D r w / - r D) by (apply U, (in_map (fun q => dot D q w / - q D)), InN; auto).
        apply Rmult_lt_compat_r with (r := - r D) in H; [|lra].
        unfold Rdiv in H. rewrite Rmult_assoc, Rinv_l in H by lra. lra.
      * assert (H : 0 < dot D r w) by (apply W, InNew; left; apply InZ; auto). rewrite Zero. lra.
      * assert (H : - (dot D r w) / r D < x) by (apply L, (in_map (fun p => - (dot D p w) / p D)), InP; auto).
        apply Rmult_lt_compat_r with (r := r D) in H; [|lra].
        unfold Rdiv in H. rewrite Rmult_assoc, Rinv_l in H by lra. lra.
    + right. exists v. split.
      * apply positive_trans with (rows' := new); auto. intros r Hr. apply InNew in Hr.
        destruct Hr as [Hr|[p [q [Hp [Hq ->]]]]].
        -- apply row. now apply InZ in Hr.
        -- apply InP in Hp. apply InN in Hq. unfold mix. apply sum_of; apply multiple; try (apply row; tauto).
           ++ apply Rinv_0_lt_compat. tauto.
           ++ apply Rinv_0_lt_compat. lra.
      * intros d Hd. destruct (Nat.eq_dec d D) as [->|]; [|apply Zv; lia].
        apply positive_entry with (rows := new); auto. intros r Hr. apply InNew in Hr.
        destruct Hr as [Hr|[p [q [Hp [Hq ->]]]]].
        -- now apply InZ in Hr.
        -- apply InP in Hp. apply InN in Hq. unfold mix, plus, times.
           assert (p D <> 0) by lra. assert (q D <> 0) by lra. field. split; lra.
Qed.

(** Sums over some of the indices. *)
Fixpoint lsum (l : list nat) (f : nat -> R) : R :=
  match l with
  | [] => 0
  | i :: rest => f i + lsum rest f
  end.

Lemma lsum_ext : forall l f g, (forall i, In i l -> f i = g i) -> lsum l f = lsum l g.
Proof. induction l; simpl; intros f g H; auto. rewrite H, (IHl f g); auto. Qed.

Lemma lsum_zero : forall l f, (forall i, In i l -> f i = 0) -> lsum l f = 0.
Proof. induction l; simpl; intros f H; auto. rewrite H, IHl; auto. lra. Qed.

Lemma lsum_linear : forall l a b f g,
  lsum l (fun i => a * f i + b * g i) = a * lsum l f + b * lsum l g.
Proof. induction l; intros; simpl; [ring | rewrite IHl; ring]. Qed.

Lemma lsum_remove : forall l i f, NoDup l -> In i l -> lsum l f = f i + lsum (remove Nat.eq_dec i l) f.
Proof.
  induction l as [|a l IH]; intros i f N I; [destruct I|]. inversion N as [|? ? Na Nl]; subst. simpl.
  destruct (Nat.eq_dec i a) as [->|E].
  - now rewrite notin_remove.
  - destruct I as [->|I]; [contradiction|]. simpl. rewrite (IH i f Nl I). lra.
Qed.

Lemma lsum_member : forall l f i, (forall k, In k l -> 0 <= f k) -> In i l -> f i <= lsum l f.
Proof.
  induction l as [|a l IH]; intros f i P I; [destruct I|]. simpl.
  assert (0 <= f a) by (apply P; simpl; auto).
  assert (0 <= lsum l f).
  { clear IH I. induction l as [|b l IHl]; simpl; [lra|].
    assert (0 <= f b) by (apply P; simpl; auto).
    assert (0 <= lsum l f) by (apply IHl; intros k [<-|K]; apply P; simpl; auto). lra. }
  destruct I as [->|I]; [lra|]. assert (f i <= lsum l f) by (apply IH; auto; intros; apply P; simpl; auto). lra.
Qed.

Lemma length_remove : forall (l : list nat) i, NoDup l -> In i l ->
  length l = S (length (remove Nat.eq_dec i l)).
Proof.
  induction l as [|a l IH]; intros i N I; [destruct I|]. inversion N as [|? ? Na Nl]; subst. simpl.
  destruct (Nat.eq_dec i a) as [->|E].
  - now rewrite notin_remove.
  - destruct I as [->|I]; [contradiction|]. simpl. now rewrite (IH i Nl I).
Qed.

Lemma NoDup_remove_all : forall (l : list nat) i, NoDup l -> NoDup (remove Nat.eq_dec i l).
Proof.
  induction l as [|a l IH]; intros i N; simpl; [constructor|]. inversion N; subst.
  destruct (Nat.eq_dec i a); auto. constructor; auto.
  intros I. apply in_remove in I. tauto.
Qed.

(** More vectors than entries are linearly dependent. *)
Lemma dependent : forall D (r : nat -> vec) (l : list nat), NoDup l -> (D < length l)%nat ->
  exists c, (exists i, In i l /\ c i <> 0) /\ forall d, (d < D)%nat -> lsum l (fun i => c i * r i d) = 0.
Proof.
  induction D as [|D IH]; intros r l N L.
  - exists (fun _ => 1). split; [|intros; lia]. destruct l as [|i l]; simpl in L; [lia|].
    exists i. split; simpl; auto; lra.
  - assert (dec : (exists p, In p l /\ r p D <> 0) \/ forall p, In p l -> r p D = 0).
    { clear. induction l as [|a l [[p [I E]]|H]].
      - right. intros p [].
      - left. exists p. simpl. auto.
      - destruct (Req_dec (r a D) 0) as [E|E].
        + right. intros p [<-|I]; auto.
        + left. exists a. simpl. auto. }
    destruct dec as [[p [Ip Ep]]|Zero].
    + pose (r' := fun i d => r i d - r i D / r p D * r p d).
      assert (Len := length_remove l p N Ip).
      destruct (IH r' (remove Nat.eq_dec p l)) as [c [[j [Ij Ej]] Hc]].
      { now apply NoDup_remove_all. } { lia. }
      pose (rest := remove Nat.eq_dec p l).
      exists (fun i => if Nat.eqb i p then - lsum rest (fun i => c i * r i D) / r p D else c i).
      assert (Out : forall f g, lsum rest (fun i => (if Nat.eqb i p then f i else c i) * g i) = lsum rest (fun i => c i * g i)).
      { intros f g. apply lsum_ext. intros i Ii. apply in_remove in Ii.
        destruct (Nat.eqb_spec i p); [tauto | reflexivity]. }
      split.
      * exists j. apply in_remove in Ij. split; [tauto|]. destruct (Nat.eqb_spec j p); tauto.
      * intros d Hd. rewrite (lsum_remove l p) by auto. fold rest. rewrite Nat.eqb_refl.
        rewrite (Out (fun _ => - lsum rest (fun i => c i * r i D) / r p D) (fun i => r i d)).
        assert (E : lsum rest (fun i => c i * r' i d) =
                    1 * lsum rest (fun i => c i * r i d) + - (r p d / r p D) * lsum rest (fun i => c i * r i D)).
        { rewrite <- lsum_linear. apply lsum_ext. intros i _. unfold r'. field. auto. }
        destruct (Nat.eq_dec d D) as [->|].
        -- field. auto.
        -- fold rest in Hc. rewrite Hc in E by lia. unfold Rdiv in E |- *. lra.
    + destruct (IH r l) as [c [Hn Hc]]; auto; [lia|]. exists c. split; auto. intros d Hd.
      destruct (Nat.eq_dec d D) as [->|]; [|apply Hc; lia].
      apply lsum_zero. intros i Ii. rewrite Zero by auto. ring.
Qed.

(** Caratheodory: while there are more than D + 1 rows, fewer will do. *)
Lemma caratheodory : forall D (r : nat -> vec) size (l : list nat) (m : nat -> R),
  (length l <= size)%nat -> NoDup l -> l <> [] ->
  (forall i, In i l -> 0 < m i) -> (forall d, (d < D)%nat -> lsum l (fun i => m i * r i d) = 0) ->
  exists l' m', incl l' l /\ NoDup l' /\ l' <> [] /\ (length l' <= D + 1)%nat /\
    (forall i, In i l' -> 0 < m' i) /\ (forall d, (d < D)%nat -> lsum l' (fun i => m' i * r i d) = 0).
Proof.
  intros D r. induction size as [|size IH]; intros l m Len N Ne P Z.
  { destruct l; simpl in Len; [contradiction | lia]. }
  destruct (le_lt_dec (length l) (D + 1)) as [Short|Long].
  { exists l, m. repeat split; auto. apply incl_refl. }
  (* a dependency whose coefficients add up to zero *)
  destruct (dependent (S D) (fun i d => if Nat.eqb d D then 1 else r i d) l N) as [c [[j [Ij Ej]] Hc]]; [lia|].
  assert (Sum0 : lsum l c = 0).
  { rewrite <- (Hc D) by lia. apply lsum_ext. intros. rewrite Nat.eqb_refl. ring. }
  assert (Row0 : forall d, (d < D)%nat -> lsum l (fun i => c i * r i d) = 0).
  { intros d Hd. rewrite <- (Hc d) by lia. apply lsum_ext. intros.
    destruct (Nat.eqb_spec d D); [lia | reflexivity]. }
  (* a positive coefficient *)
  assert (exists q, In q l /\ 0 < c q) as Hq.
  { destruct (Rlt_dec 0 (c j)); [exists j; auto|].
    assert (dec : (exists q, In q l /\ 0 < c q) \/ forall q, In q l -> c q <= 0).
    { clear. induction l as [|a l [[q [I E]]|H]].
      - right. intros q [].
      - left. exists q. simpl. auto.
      - destruct (Rlt_dec 0 (c a)).
        + left. exists a. simpl. auto.
        + right. intros q [<-|I]; auto. lra. }
    destruct dec as [|Neg]; auto. exfalso.
    assert (- c j <= lsum l (fun i => - c i)).
    { apply (lsum_member l (fun i => - c i)); auto. intros i Ii. specialize (Neg i Ii). lra. }
    assert (E : lsum l (fun i => - c i) = - lsum l c).
    { rewrite <- (Rplus_0_r (- lsum l c)).
      replace (- lsum l c + 0) with ((-1) * lsum l c + 0 * lsum l c) by ring.
      rewrite <- lsum_linear. apply lsum_ext. intros. ring. }
    lra. }
  (* the positive coefficient of least ratio m / c *)
  assert (exists q, In q l /\ 0 < c q /\ forall i, In i l -> 0 < c i -> m q / c q <= m i / c i) as [q [Iq [Cq Least]]].
  { clear -Hq. induction l as [|a l IH].
    - destruct Hq as [q [[] _]].
    - assert (dec : (exists q, In q l /\ 0 < c q) \/ ~ exists q, In q l /\ 0 < c q).
      { clear. induction l as [|b l [[q [I E]]|H]].
        - right. intros [q [[] _]].
        - left. exists q. simpl. auto.
        - destruct (Rlt_dec 0 (c b)).
          + left. exists b. simpl. auto.
          + right. intros [q [[<-|I] E]]; [lra|]. apply H. exists q. auto. }
      destruct dec as [H|H].
      + destruct (IH H) as [q [I [E L]]].
        destruct (Rlt_dec 0 (c a)) as [Ca|Ca]; [destruct (Rle_dec (m q / c q) (m a / c a)) as [|Q]|].
        * exists q. split; [right; auto|]. split; auto. intros i [<-|Ii] Ci; auto.
        * exists a. split; [left; auto|]. split; auto. intros i [<-|Ii] Ci; [lra|].
          specialize (L i Ii Ci). lra.
        * exists q. split; [right; auto|]. split; auto. intros i [<-|Ii] Ci; [lra | auto].
      + destruct Hq as [p [[<-|I] E]].
        * exists a. split; [left; auto|]. split; auto. intros i [<-|Ii] Ci; [lra|].
          exfalso. apply H. exists i. auto.
        * exfalso. apply H. exists p. auto. }
  pose (t := m q / c q).
  assert (T : 0 < t) by (unfold t, Rdiv; apply Rmult_lt_0_compat; auto; apply Rinv_0_lt_compat; auto).
  pose (m2 := fun i => m i - t * c i).
  assert (P2 : forall i, In i l -> 0 <= m2 i).
  { intros i Ii. unfold m2. destruct (Rlt_dec 0 (c i)) as [Ci|Ci].
    - assert (H := Least i Ii Ci). fold t in H. apply Rmult_le_compat_r with (r := c i) in H; [|lra].
      unfold Rdiv in H. rewrite Rmult_assoc, Rinv_l in H by lra. lra.
    - assert (0 < m i) by auto. nra. }
  assert (Q2 : m2 q = 0) by (unfold m2, t; field; lra).
  pose (l2 := filter (fun i => if Rlt_dec 0 (m2 i) then true else false) l).
  assert (In2 : forall i, In i l2 <-> In i l /\ 0 < m2 i).
  { intros i. unfold l2. rewrite filter_In. destruct (Rlt_dec 0 (m2 i)); intuition; try discriminate. }
  assert (Same : forall g, lsum l2 (fun i => m2 i * g i) = lsum l (fun i => m2 i * g i)).
  { intros g. unfold l2. clear -P2. induction l as [|a l IHl]; simpl; auto.
    assert (0 <= m2 a) by (apply P2; simpl; auto).
    destruct (Rlt_dec 0 (m2 a)); simpl.
    - rewrite IHl by (intros; apply P2; simpl; auto). reflexivity.
    - replace (m2 a) with 0 by lra. rewrite IHl by (intros; apply P2; simpl; auto). ring. }
  assert (Sum2 : lsum l m2 = lsum l m).
  { unfold m2. replace (lsum l m) with (1 * lsum l m + - t * lsum l c) by (rewrite Sum0; ring).
    rewrite <- lsum_linear. apply lsum_ext. intros. ring. }
  destruct (IH l2 m2) as [l' [m' [I' [N' [Ne' [L' [P' Z']]]]]]].
  - assert (length l2 < length l)%nat; [|lia].
    assert (incl l2 (remove Nat.eq_dec q l)).
    { intros i Ii. apply In2 in Ii. apply in_in_remove; [|tauto]. intros ->. lra. }
    assert (NoDup l2) by (apply NoDup_filter; auto).
    assert (length l2 <= length (remove Nat.eq_dec q l))%nat by (apply NoDup_incl_length; auto).
    assert (H3 := length_remove l q N Iq). lia.
  - apply NoDup_filter; auto.
  - intros E. assert (lsum l m = 0).
    { rewrite <- Sum2. transitivity (lsum l2 (fun i => m2 i * 1)).
      - rewrite Same. apply lsum_ext. intros. ring.
      - rewrite E. reflexivity. }
    destruct l as [|a l]; [contradiction|].
    assert (m a <= lsum (a :: l) m).
    { apply lsum_member; simpl; auto. intros k K. apply Rlt_le, P. exact K. }
    assert (0 < m a) by (apply P; simpl; auto). lra.
  - intros i Ii. now apply In2 in Ii.
  - intros d Hd. rewrite Same. unfold m2.
    transitivity (1 * lsum l (fun i => m i * r i d) + - t * lsum l (fun i => c i * r i d)).
    + rewrite <- lsum_linear. apply lsum_ext. intros. ring.
    + rewrite Z, Row0 by auto. ring.
  - exists l', m'. repeat split; auto. intros i Ii. apply I' in Ii. now apply In2 in Ii.
Qed.

Lemma lsum_sum : forall n f, lsum (seq 0 n) f = sum n f.
Proof.
  intros n f. assert (H : forall l, lsum (l ++ [n]) f = lsum l f + f n).
  { induction l; simpl; [ring | rewrite IHl; ring]. }
  clear H. induction n as [|n IH]; auto.
  rewrite seq_S. simpl.
  assert (H : forall l k, lsum (l ++ [k]) f = lsum l f + f k).
  { induction l; intros; simpl; [ring | rewrite IHl; ring]. }
  rewrite H, IH. reflexivity.
Qed.

(** Multipliers on some indices, 0 elsewhere. *)
Definition spread (l : list nat) (m : nat -> R) : nat -> R :=
  fun i => if in_dec Nat.eq_dec i l then m i else 0.

Lemma lsum_spread : forall n l m g, NoDup l -> (forall i, In i l -> (i < n)%nat) ->
  lsum l (fun i => m i * g i) = sum n (fun i => spread l m i * g i).
Proof.
  intros n l m g N B. rewrite <- lsum_sum.
  assert (H : forall all, NoDup all -> incl l all ->
            lsum l (fun i => m i * g i) = lsum all (fun i => spread l m i * g i)).
  { revert N. clear B. induction l as [|a l IH]; intros N all Na I.
    - simpl. symmetry. apply lsum_zero. intros. unfold spread. simpl. ring.
    - inversion N as [|? ? Nl N']; subst.
      assert (Ia : In a all) by (apply I; simpl; auto).
      simpl. rewrite (lsum_remove all a) by auto. f_equal.
      + unfold spread. destruct (in_dec Nat.eq_dec a (a :: l)) as [|F]; [reflexivity|]. exfalso. apply F; simpl; auto.
      + rewrite (IH N' (remove Nat.eq_dec a all)).
        * apply lsum_ext. intros i Ii. apply in_remove in Ii. unfold spread.
          destruct (in_dec Nat.eq_dec i l), (in_dec Nat.eq_dec i (a :: l)); simpl in *; auto; exfalso; tauto || intuition.
        * now apply NoDup_remove_all.
        * intros i Ii. apply in_in_remove; [intros ->; contradiction | apply I; simpl; auto]. }
  apply H; [apply seq_NoDup|]. intros i Ii. apply in_seq. specialize (B i Ii). lia.
Qed.

(** The rows with a positive multiplier. *)
Definition support (n : nat) (m : nat -> R) : list nat :=
  filter (fun i => if Rlt_dec 0 (m i) then true else false) (seq 0 n).

(** C2 (Gordan, with Caratheodory's bound): either some weights have positive products with all rows, or the rows times
    non-negative multipliers, of which at most D + 1 are positive, add up to 0. By [certificate], both cannot hold. *)
Theorem gordan : forall D n (r : nat -> vec),
  (exists w, forall k, (k < n)%nat -> 0 < dot D (r k) w) \/
  (exists m, balanced D n m r /\ (length (support n m) <= D + 1)%nat).
Proof.
  intros D n r. destruct (alternative D (map r (seq 0 n))) as [[w W]|[v [P Z]]].
  - left. exists w. intros k Hk. apply W, in_map, in_seq. lia.
  - right.
    (* from sums of multiples to multipliers *)
    assert (exists m, (forall k, (k < n)%nat -> 0 <= m k) /\ (exists k, (k < n)%nat /\ 0 < m k) /\
              (forall d, sum n (fun k => m k * r k d) = v d)) as [m [M0 [M1 M2]]].
    { clear Z. induction P as [u I | u v _ [m [A [[k [Hk Ak]] B]]] _ [m' [A' [_ B']]] | a u Ha _ [m [A [[k [Hk Ak]] B]]]].
      - apply in_map_iff in I. destruct I as [k [<- I]]. apply in_seq in I. exists (single k 1).
        split; [|split].
        + intros i _. unfold single. destruct (Nat.eqb i k); lra.
        + exists k. split; [lia|]. unfold single. rewrite Nat.eqb_refl. lra.
        + intros d. rewrite <- (sum_single n k (r k d)) by lia. apply sum_ext. intros i _.
          unfold single. destruct (Nat.eqb_spec i k) as [->|]; ring.
      - exists (fun i => m i + m' i). split; [|split].
        + intros i Hi. specialize (A i Hi). specialize (A' i Hi). lra.
        + exists k. split; auto. specialize (A' k Hk). lra.
        + intros d. unfold plus. rewrite <- B, <- B', <- sum_add. apply sum_ext. intros. ring.
      - exists (fun i => a * m i). split; [|split].
        + intros i Hi. specialize (A i Hi). nra.
        + exists k. split; auto. nra.
        + intros d. unfold times. rewrite <- B, <- sum_scale. apply sum_ext. intros. ring. }
    destruct (caratheodory D r (length (support n m)) (support n m) m) as [l [m' [I [N [Ne [L [P' Z']]]]]]].
    + lia.
    + apply NoDup_filter, seq_NoDup.
    + destruct M1 as [k [Hk Mk]]. intros E. assert (F : In k (support n m)).
      { unfold support. apply filter_In. split; [apply in_seq; lia|]. destruct (Rlt_dec 0 (m k)); auto; lra. }
      rewrite E in F. destruct F.
    + intros i Ii. unfold support in Ii. apply filter_In in Ii. destruct Ii as [_ E].
      destruct (Rlt_dec 0 (m i)); auto. discriminate.
    + intros d Hd. transitivity (v d); [|now apply Z]. rewrite <- M2, <- lsum_sum.
      unfold support. clear -M0. assert (B : forall i, In i (seq 0 n) -> (i < n)%nat) by (intros i H; apply in_seq in H; lia).
      induction (seq 0 n) as [|a l IHl]; simpl; auto.
      assert (0 <= m a) by (apply M0, B; simpl; auto).
      destruct (Rlt_dec 0 (m a)); simpl; rewrite IHl by (intros; apply B; simpl; auto); auto.
      replace (m a) with 0 by lra. ring.
    + assert (B : forall i, In i l -> (i < n)%nat).
      { intros i Ii. apply I in Ii. unfold support in Ii. apply filter_In in Ii. destruct Ii as [Ii _].
        apply in_seq in Ii. lia. }
      exists (spread l m'). split; [split; [|split]|].
      * intros k _. unfold spread. destruct (in_dec Nat.eq_dec k l) as [F|]; [apply Rlt_le; auto | lra].
      * destruct l as [|a l]; [contradiction|]. exists a. split; [apply B; simpl; auto|].
        unfold spread. destruct (in_dec Nat.eq_dec a (a :: l)) as [|F]; [apply P'; simpl; auto|].
        exfalso. apply F; simpl; auto.
      * intros d Hd. unfold combine, zero. rewrite <- lsum_spread by auto. auto.
      * apply Nat.le_trans with (length l); auto. apply NoDup_incl_length.
        -- apply NoDup_filter, seq_NoDup.
        -- intros i Ii. unfold support in Ii. apply filter_In in Ii. destruct Ii as [_ E].
           destruct (Rlt_dec 0 (spread l m' i)) as [Q|]; [|discriminate].
           unfold spread in Q. destruct (in_dec Nat.eq_dec i l); auto. lra.
Qed.

(** C2 (Helly): if every D + 1 of the rows have common weights, all rows have common weights. *)
Theorem helly : forall D n (r : nat -> vec),
  (forall l : list nat, (length l <= D + 1)%nat -> exists w, forall k, In k l -> (k < n)%nat -> 0 < dot D (r k) w) ->
  exists w, forall k, (k < n)%nat -> 0 < dot D (r k) w.
Proof.
  intros D n r H. destruct (gordan D n r) as [|[m [B L]]]; auto. exfalso.
  destruct (H (support n m) L) as [w W]. apply (certificate D n m r B). exists w.
  intros k Hk Mk. apply W; auto. unfold support. apply filter_In. split; [apply in_seq; lia|].
  destruct (Rlt_dec 0 (m k)); auto.
Qed.
