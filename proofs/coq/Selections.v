(** Attainable selections: dividing (S1), sparse combinations (S2), the published test (S3), look-ahead (S5) and groups
    (S6).

    Lists are numbered; list s has the hypotheses 0 .. size s - 1. A selection x names one position for each list. A
    part is a Coq list of list numbers. Weights are those of a region, any set of vectors. *)

From Coq Require Import Reals Lra Lia List Permutation ZArith.
From Lpmert Require Import Vectors.
Import ListNotations.
Open Scope R_scope.

Lemma no_dup_left : forall {A} (l l' : list A), NoDup (l ++ l') -> NoDup l.
Proof.
  induction l as [|a l IH]; intros l' N; [constructor|]. inversion N; subst.
  constructor; [intros I; apply H1, in_or_app; auto | eauto].
Qed.

Lemma no_dup_right : forall {A} (l l' : list A), NoDup (l ++ l') -> NoDup l'.
Proof. induction l as [|a l IH]; intros l' N; auto. inversion N; subst. auto. Qed.

Section Problem.
  Variable D : nat.
  Variable region : vec -> Prop.
  Variable size : nat -> nat.
  Variable feature : nat -> nat -> vec.
  Variable cost : nat -> nat -> Z.

  Notation score s j w := (dot D (feature s j) w).

  Definition strictly_best (w : vec) (s h : nat) : Prop :=
    forall j, (j < size s)%nat -> j <> h -> score s j w < score s h w.

  Definition weakly_best (w : vec) (s h : nat) : Prop :=
    forall j, (j < size s)%nat -> score s j w <= score s h w.

  Definition valid (part : list nat) (x : nat -> nat) : Prop := forall s, In s part -> (x s < size s)%nat.

  (** w decodes every list of the part to the selection, without a tie. *)
  Definition decodes (w : vec) (part : list nat) (x : nat -> nat) : Prop :=
    valid part x /\ forall s, In s part -> strictly_best w s (x s).

  Definition attainable (part : list nat) (x : nat -> nat) : Prop := exists w, region w /\ decodes w part x.

  (** S1 (dividing): a selection that is attainable on some lists is attainable on fewer lists. Hence an interior
      selection stays interior when lists are added. *)
  Theorem dividing : forall part part' x, incl part' part -> attainable part x -> attainable part' x.
  Proof. intros part part' x Hi [w [R [Hv Hb]]]. exists w. split; auto. split; intros s Hs; auto. Qed.

  Theorem interior_stays_interior : forall part part' x,
    incl part part' -> ~ attainable part x -> ~ attainable part' x.
  Proof. intros part part' x Hi Hn Ha. apply Hn. eapply dividing; eauto. Qed.

  (** Attainability depends only on the choices within the part. *)
  Lemma attainable_ext : forall part x y,
    (forall s, In s part -> x s = y s) -> attainable part x -> attainable part y.
  Proof.
    intros part x y E [w [R [Hv Hb]]]. exists w. split; auto. split; intros s Hs; rewrite <- E by auto; auto.
  Qed.

  (** A strict winner is unique, so weights attain only one selection. *)
  Lemma strictly_best_unique : forall w s h h',
    (h < size s)%nat -> (h' < size s)%nat -> strictly_best w s h -> strictly_best w s h' -> h = h'.
  Proof.
    intros w s h h' Hh Hh' B B'. destruct (Nat.eq_dec h h') as [|N]; auto.
    assert (score s h w < score s h' w) by (apply B'; auto).
    assert (score s h' w < score s h w) by (apply B; auto). lra.
  Qed.

  (** ** S2: sparse combinations *)

  (** The joint score of the choices of y in the part: the product of w with the point of y in the Minkowski sum of the
      lists. *)
  Fixpoint together (w : vec) (part : list nat) (y : nat -> nat) : R :=
    match part with
    | [] => 0
    | s :: rest => score s (y s) w + together w rest y
    end.

  Definition differ (part : list nat) (x y : nat -> nat) : Prop := exists s, In s part /\ y s <> x s.

  Definition replace (x : nat -> nat) (s j : nat) : nat -> nat := fun t => if Nat.eqb t s then j else x t.

  (** Strictly best among all combinations: N^S points. *)
  Definition best_of_product (w : vec) (part : list nat) (x : nat -> nat) : Prop :=
    forall y, valid part y -> differ part x y -> together w part y < together w part x.

  (** Strictly best among the combinations that differ in one list only: S(N-1)+1 points. *)
  Definition best_of_sparse (w : vec) (part : list nat) (x : nat -> nat) : Prop :=
    forall s j, In s part -> (j < size s)%nat -> j <> x s ->
      together w part (replace x s j) < together w part x.

  Lemma together_ext : forall w part x y,
    (forall s, In s part -> x s = y s) -> together w part x = together w part y.
  Proof.
    induction part as [|s rest IH]; intros x y E; simpl; auto.
    rewrite (E s) by (left; auto). rewrite (IH x y) by (intros; apply E; right; auto). reflexivity.
  Qed.

  Lemma replace_here : forall x s j, replace x s j s = j.
  Proof. intros. unfold replace. now rewrite Nat.eqb_refl. Qed.

  Lemma replace_elsewhere : forall x s j t, t <> s -> replace x s j t = x t.
  Proof. intros. unfold replace. destruct (Nat.eqb_spec t s); [contradiction | reflexivity]. Qed.

  Lemma together_replace : forall w part x s j,
    NoDup part -> In s part ->
    together w part (replace x s j) - together w part x = score s j w - score s (x s) w.
  Proof.
    induction part as [|t rest IH]; intros x s j N I; [destruct I|].
    inversion N as [|? ? Nt Nr]; subst. simpl. destruct I as [->|I].
    - rewrite replace_here.
      rewrite (together_ext w rest (replace x s j) x); [lra|].
      intros u Hu. apply replace_elsewhere. intros ->. contradiction.
    - rewrite replace_elsewhere by (intros ->; contradiction).
      specialize (IH x s j Nr I). lra.
  Qed.

  Lemma together_weakly_best : forall w part x y,
    (forall s, In s part -> score s (y s) w <= score s (x s) w) ->
    together w part y <= together w part x.
  Proof.
    induction part as [|s rest IH]; intros x y H; simpl; [lra|].
    assert (score s (y s) w <= score s (x s) w) by (apply H; left; auto).
    assert (together w rest y <= together w rest x) by (apply IH; intros; apply H; right; auto). lra.
  Qed.

  Lemma together_strictly_best : forall w part x y,
    valid part y -> differ part x y ->
    (forall s, In s part -> strictly_best w s (x s)) ->
    together w part y < together w part x.
  Proof.
    induction part as [|s rest IH]; intros x y V [t [It Nt]] B; [destruct It|]. simpl.
    assert (H : forall u, In u (s :: rest) -> score u (y u) w <= score u (x u) w).
    { intros u Hu. destruct (Nat.eq_dec (y u) (x u)) as [->|]; [lra|].
      apply Rlt_le, B; auto. }
    destruct It as [->|It].
    - assert (score t (y t) w < score t (x t) w) by (apply B; [left; auto | apply V; left; auto | auto]).
      assert (together w rest y <= together w rest x).
      { apply together_weakly_best. intros; apply H; right; auto. } lra.
    - assert (score s (y s) w <= score s (x s) w) by (apply H; left; auto).
      assert (together w rest y < together w rest x).
      { apply IH; [intros u Hu; apply V; right; auto | exists t; auto | intros; apply B; right; auto]. }
      lra.
  Qed.

  (** S2: for the same weights, the S(N-1)+1 points decide the same as all N^S points. Both decide the same as one
      comparison with every other hypothesis of every list, which are the rows of the linear programs. *)
  Theorem sparse_combination : forall w part x, NoDup part -> valid part x ->
    (best_of_product w part x <-> best_of_sparse w part x) /\
    (best_of_sparse w part x <-> decodes w part x).
  Proof.
    intros w part x N V.
    assert (A : best_of_product w part x -> best_of_sparse w part x).
    { intros H s j Is Hj Nj. apply H.
      - intros t It. destruct (Nat.eq_dec t s) as [->|].
        + now rewrite replace_here.
        + rewrite replace_elsewhere by auto. now apply V.
      - exists s. split; auto. now rewrite replace_here. }
    assert (B : best_of_sparse w part x -> decodes w part x).
    { intros H. split; auto. intros s Is j Hj Nj.
      assert (E := together_replace w part x s j N Is). specialize (H s j Is Hj Nj). lra. }
    assert (C : decodes w part x -> best_of_product w part x).
    { intros [_ H] y Vy Dy. now apply together_strictly_best. }
    split; split; auto.
  Qed.

  Corollary sparse_combination_attainable : forall part x, NoDup part -> valid part x ->
    ((exists w, region w /\ best_of_product w part x) <-> (exists w, region w /\ best_of_sparse w part x)) /\
    ((exists w, region w /\ best_of_sparse w part x) <-> attainable part x).
  Proof.
    intros part x N V.
    split; split; intros [w H]; exists w; destruct (sparse_combination w part x N V); tauto.
  Qed.

  (** Two halves of a combination: all pairs (u, v) decide the same as the pairs that share one half with it. *)
  Lemma together_app : forall w left right y,
    together w (left ++ right) y = together w left y + together w right y.
  Proof. induction left; intros; simpl; [lra | rewrite IHleft; lra]. Qed.

  Theorem sparse_halves : forall w left right x, NoDup (left ++ right) -> valid (left ++ right) x ->
    (best_of_product w (left ++ right) x <->
     (forall u, valid left u -> differ left x u ->
        together w left u + together w right x < together w (left ++ right) x) /\
     (forall v, valid right v -> differ right x v ->
        together w left x + together w right v < together w (left ++ right) x)).
  Proof.
    intros w left right x N V. rewrite together_app.
    assert (NL : NoDup left) by (eapply no_dup_left; eauto).
    assert (NR : NoDup right) by (eapply no_dup_right; eauto).
    assert (VL : valid left x) by (intros s Hs; apply V, in_or_app; auto).
    assert (VR : valid right x) by (intros s Hs; apply V, in_or_app; auto).
    destruct (sparse_combination w (left ++ right) x N V) as [P1 P2].
    destruct (sparse_combination w left x NL VL) as [L1 L2].
    destruct (sparse_combination w right x NR VR) as [R1 R2].
    assert (E : decodes w (left ++ right) x <-> decodes w left x /\ decodes w right x).
    { unfold decodes. split.
      - intros [_ H]. repeat split; auto; intros; apply H, in_or_app; auto.
      - intros [[_ H] [_ H']]. split; auto. intros s Hs. apply in_app_or in Hs. destruct Hs; auto. }
    split.
    - intros H.
      assert (best_of_product w left x /\ best_of_product w right x) as [HL HR] by tauto.
      split; intros u Vu Du.
      + specialize (HL u Vu Du). lra.
      + specialize (HR u Vu Du). lra.
    - intros [HL HR].
      assert (best_of_product w left x) by (intros u Vu Du; specialize (HL u Vu Du); lra).
      assert (best_of_product w right x) by (intros u Vu Du; specialize (HR u Vu Du); lra).
      tauto.
  Qed.

  (** The same for points instead of combinations. If no list contains a vector twice, a combination is strictly best
      among the other *points* of the Minkowski sum (a vertex of its hull) if and only if it is strictly best among the
      other combinations, although several combinations may share one point. *)
  Fixpoint point (part : list nat) (y : nat -> nat) : vec :=
    match part with
    | [] => zero
    | s :: rest => plus (feature s (y s)) (point rest y)
    end.

  Lemma together_point : forall w part y, together w part y = dot D (point part y) w.
  Proof.
    induction part; intros; simpl; [now rewrite dot_zero | now rewrite dot_plus, IHpart].
  Qed.

  Definition vertex (w : vec) (part : list nat) (x : nat -> nat) : Prop :=
    forall y, valid part y -> ~ same D (point part y) (point part x) -> together w part y < together w part x.

  Lemma point_ext : forall part x y, (forall s, In s part -> x s = y s) -> forall d, point part x d = point part y d.
  Proof.
    induction part as [|s rest IH]; intros x y E d; simpl; auto. unfold plus.
    rewrite (E s) by (left; auto). rewrite (IH x y) by (intros; apply E; right; auto). reflexivity.
  Qed.

  Lemma point_replace : forall part x s j d,
    NoDup part -> In s part ->
    point part (replace x s j) d - point part x d = feature s j d - feature s (x s) d.
  Proof.
    induction part as [|t rest IH]; intros x s j d N I; [destruct I|].
    inversion N as [|? ? Nt Nr]; subst. simpl. unfold plus. destruct I as [->|I].
    - rewrite replace_here.
      rewrite (point_ext rest (replace x s j) x); [lra|].
      intros u Hu. apply replace_elsewhere. intros ->. contradiction.
    - rewrite replace_elsewhere by (intros ->; contradiction). specialize (IH x s j d Nr I). lra.
  Qed.

  Theorem vertex_of_the_sum : forall w part x, NoDup part -> valid part x ->
    (forall s i j, In s part -> (i < size s)%nat -> (j < size s)%nat -> i <> j ->
       ~ same D (feature s i) (feature s j)) ->
    (vertex w part x <-> decodes w part x).
  Proof.
    intros w part x N V Distinct. split.
    - intros H. split; auto. intros s Is j Hj Nj.
      assert (E := together_replace w part x s j N Is).
      assert (together w part (replace x s j) < together w part x); [|lra].
      apply H.
      + intros t It. destruct (Nat.eq_dec t s) as [->|].
        * now rewrite replace_here.
        * rewrite replace_elsewhere by auto. now apply V.
      + intros Same. apply (Distinct s j (x s) Is Hj (V s Is) Nj). intros d Hd.
        assert (P := point_replace part x s j d N Is). specialize (Same d Hd). lra.
    - intros [_ B] y Vy Ny. apply together_strictly_best; auto.
      (* the points differ, so some choice differs *)
      clear B V. induction part as [|s rest IH].
      + exfalso. apply Ny. intros d _. reflexivity.
      + destruct (Nat.eq_dec (y s) (x s)) as [E|E].
        * inversion N as [|? ? Ns Nr]; subst.
          destruct IH as [t [It Nt]]; auto.
          -- intros; apply Distinct; auto. right; auto.
          -- intros t It. apply Vy. right; auto.
          -- intros Same. apply Ny. intros d Hd. simpl. unfold plus. rewrite E, (Same d Hd). reflexivity.
          -- exists t. split; auto. right; auto.
        * exists s. split; auto. left; auto.
  Qed.

  (** ** S3: the published test *)

  (** The test asks for w.(x - y) >= 0 for all points y and w.(x - centroid) > 0: no comparison is lost, and at least
      one is won. *)
  Definition published (part : list nat) (x : nat -> nat) : Prop :=
    valid part x /\ exists w,
      (forall s, In s part -> weakly_best w s (x s)) /\
      (exists s j, In s part /\ (j < size s)%nat /\ score s j w < score s (x s) w).

  (** The test accepts every attainable selection, unless no list has a second hypothesis. *)
  Theorem attainable_is_published : forall part x,
    (exists s, In s part /\ (2 <= size s)%nat) -> attainable part x -> published part x.
  Proof.
    intros part x [s [Is Hs]] [w [_ [V B]]]. split; auto. exists w. split.
    - intros t It j Hj. destruct (Nat.eq_dec j (x t)) as [->|]; [lra|]. apply Rlt_le, B; auto.
    - destruct (Nat.eq_dec (x s) 0) as [E|E].
      + exists s, 1%nat. split; auto. split; [lia|]. apply B; auto; lia.
      + exists s, 0%nat. split; auto. split; [lia|]. apply B; auto; lia.
  Qed.

  (** The closed notion: some w other than 0 loses no comparison. Dividing holds for it, and the sparse set decides the
      same as the product. *)
  Definition closed_on (w : vec) (part : list nat) (x : nat -> nat) : Prop :=
    forall s, In s part -> weakly_best w s (x s).

  Theorem published_is_closed : forall part x, published part x ->
    exists w, ~ same D w zero /\ closed_on w part x.
  Proof.
    intros part x [_ [w [W [s [j [Is [Hj L]]]]]]]. exists w. split; auto. intros Z.
    rewrite (dot_same_r D _ _ _ Z), (dot_same_r D (feature s (x s)) _ _ Z) in L.
    rewrite !(dot_comm D _ zero), !dot_zero in L. lra.
  Qed.

  Theorem dividing_closed : forall w part part' x, incl part' part -> closed_on w part x -> closed_on w part' x.
  Proof. intros w part part' x I H s Is. apply H, I, Is. Qed.

  Theorem sparse_combination_closed : forall w part x, NoDup part -> valid part x ->
    (closed_on w part x <-> forall y, valid part y -> together w part y <= together w part x).
  Proof.
    intros w part x N V. split.
    - intros W y Vy. apply together_weakly_best. intros s Is. apply W; auto.
    - intros H s Is j Hj. assert (E := together_replace w part x s j N Is).
      assert (Q : together w part (replace x s j) <= together w part x); [|lra].
      apply H. intros t It. destruct (Nat.eq_dec t s) as [->|].
      + now rewrite replace_here.
      + rewrite replace_elsewhere by auto. now apply V.
  Qed.

  (** The test rejects a single list of one hypothesis, which any weights attain. *)
  Theorem published_rejects_singletons : forall s x, size s = 1%nat -> ~ published [s] x.
  Proof.
    intros s x H [V [w [_ [t [j [It [Hj L]]]]]]]. destruct It as [<-|[]].
    assert (x s < size s)%nat by (apply V; left; auto).
    replace j with (x s) in L by lia. lra.
  Qed.

  (** The sparse set decides the same as the product for the published test, too. *)
  Definition published_on_product (w : vec) (part : list nat) (x : nat -> nat) : Prop :=
    (forall y, valid part y -> together w part y <= together w part x) /\
    (exists y, valid part y /\ together w part y < together w part x).

  Theorem sparse_combination_published : forall part x, NoDup part -> valid part x ->
    (published part x <-> exists w, published_on_product w part x).
  Proof.
    intros part x N V.
    assert (R : forall s j, In s part -> (j < size s)%nat -> valid part (replace x s j)).
    { intros s j Is Hj t It. destruct (Nat.eq_dec t s) as [->|].
      - now rewrite replace_here.
      - rewrite replace_elsewhere by auto. now apply V. }
    split.
    - intros [_ [w [W [s [j [Is [Hj L]]]]]]]. exists w. split.
      + intros y Vy. apply together_weakly_best. intros t It. apply W; auto.
      + exists (replace x s j). split; auto.
        assert (E := together_replace w part x s j N Is). lra.
    - intros [w [W [y [Vy L]]]]. split; auto. exists w.
      assert (B : forall s, In s part -> weakly_best w s (x s)).
      { intros s Is j Hj. assert (E := together_replace w part x s j N Is).
        specialize (W (replace x s j) (R s j Is Hj)). lra. }
      split; auto.
      clear W R N V. induction part as [|s rest IH]; simpl in L; [lra|].
      destruct (Rlt_dec (score s (y s) w) (score s (x s) w)) as [Hs|Hs].
      + exists s, (y s). split; [left; auto|]. split; auto. apply Vy. left; auto.
      + destruct IH as [t [j [It [Hj Lt]]]].
        * intros t It. apply Vy. right; auto.
        * assert (score s (y s) w <= score s (x s) w) by (apply B; [left | apply Vy; left]; auto). lra.
        * intros t It. apply B. right; auto.
        * exists t, j. split; [right|]; auto.
  Qed.

  (** ** S5: look-ahead *)

  (** The costs of a selection over a part. *)
  Definition costs (part : list nat) (x : nat -> nat) : Z := total (fun s => cost s (x s)) part.

  (** If every choice before [least] in a list's order of cost is unattainable together with the decided choices, then
      every attainable selection with the decided choices costs at least as much as with [least]. *)
  Theorem look_ahead : forall part decided x least,
    incl decided part -> attainable part x ->
    (forall s, In s decided -> (least s <= x s)%nat) ->
    (forall s h, In s part -> ~ In s decided -> (h < least s)%nat -> ~ attainable (s :: decided) (replace x s h)) ->
    (forall s i j, In s part -> (i <= j)%nat -> (j < size s)%nat -> (cost s i <= cost s j)%Z) ->
    (costs part least <= costs part x)%Z.
  Proof.
    intros part decided x least Hi Ha Hd Hl Sorted. apply total_le. intros s Is.
    assert (V : (x s < size s)%nat) by (destruct Ha as [w [_ [V _]]]; auto).
    apply Sorted; auto. destruct (in_dec Nat.eq_dec s decided) as [I|N]; auto.
    destruct (le_lt_dec (least s) (x s)) as [|L]; auto. exfalso.
    apply (Hl s (x s) Is N L). apply attainable_ext with (x := x).
    - intros t _. unfold replace. destruct (Nat.eqb_spec t s) as [->|]; auto.
    - apply dividing with (part := part); auto. intros t [<-|It]; auto.
  Qed.

  (** ** S6: the group bound *)

  Lemma costs_permutation : forall part part' x, Permutation part part' -> costs part x = costs part' x.
  Proof. unfold costs. induction 1; simpl; try lia. Qed.

  Lemma costs_concat : forall groups x,
    costs (concat groups) x = total (fun group => costs group x) groups.
  Proof.
    unfold costs. induction groups; intros; simpl; auto. rewrite total_app, IHgroups. reflexivity.
  Qed.

  (** Each group is free to use weights of its own, so the bounds of all groups hold for every selection that is
      attainable on the whole. *)
  Theorem group_bound : forall part groups (bound : list nat -> Z) x,
    Permutation part (concat groups) ->
    (forall group y, In group groups -> attainable group y -> (bound group <= costs group y)%Z) ->
    attainable part x -> (total bound groups <= costs part x)%Z.
  Proof.
    intros part groups bound x P B A. rewrite (costs_permutation _ _ _ P), costs_concat.
    apply total_le. intros group I. apply B; auto. apply dividing with (part := part); auto.
    intros s Is. apply Permutation_in with (concat groups); [now apply Permutation_sym|].
    apply in_concat. exists group. auto.
  Qed.
End Problem.

(** ** S3: dividing fails for the published test

    Take the lists A = {0, e1, 2 e1}, B = {0, -e1, -2 e1}, C = {0, e2} in the plane, and choose the first hypothesis of
    each. On A and B together only weights with w1 = 0 lose no comparison, and they win none. But (0, -1) wins the
    comparison of C, so the test accepts A, B and C together, and also A and C. A search that combines A with B first
    drops the combination, and a search that combines A with C first accepts it. *)
Definition plane (p q : R) : vec := fun d => match d with O => p | 1%nat => q | _ => 0 end.

Definition tied_feature (s j : nat) : vec :=
  match s with
  | O => plane (INR j) 0
  | 1%nat => plane (- INR j) 0
  | _ => plane 0 (INR j)
  end.

Definition tied_size (s : nat) : nat := match s with O => 3 | 1%nat => 3 | _ => 2 end%nat.

Theorem published_is_not_hereditary :
  let chosen := fun _ => 0%nat in
  published 2 tied_size tied_feature [0; 1; 2]%nat chosen /\
  published 2 tied_size tied_feature [0; 2]%nat chosen /\
  ~ published 2 tied_size tied_feature [0; 1]%nat chosen /\
  ~ attainable 2 (fun _ => True) tied_size tied_feature [0; 1; 2]%nat chosen.
Proof.
  intros chosen.
  assert (P : forall s j w, dot 2 (tied_feature s j) w =
            INR j * match s with O => w 0%nat | 1%nat => - w 0%nat | _ => w 1%nat end).
  { intros s j w. unfold dot. simpl. destruct s as [|[|s]]; simpl; ring. }
  assert (V : forall part, valid tied_size part chosen).
  { intros part s _. unfold chosen. destruct s as [|[|s]]; simpl; lia. }
  assert (Z : forall j, 0 <= INR j) by (intros; apply pos_INR).
  repeat split; auto.
  - exists (plane 0 (-1)). split.
    + intros s Is j Hj. rewrite !P. unfold chosen, plane. simpl (INR 0). specialize (Z j).
      destruct s as [|[|s]]; simpl; nra.
    + exists 2%nat, 1%nat. split; [simpl; auto|]. split; [simpl; lia|]. rewrite !P. unfold chosen, plane. simpl. lra.
  - exists (plane 0 (-1)). split.
    + intros s Is j Hj. rewrite !P. unfold chosen, plane. simpl (INR 0). specialize (Z j).
      destruct s as [|[|s]]; simpl; nra.
    + exists 2%nat, 1%nat. split; [simpl; auto|]. split; [simpl; lia|]. rewrite !P. unfold chosen, plane. simpl. lra.
  - intros [_ [w [W [s [j [Is [Hj L]]]]]]].
    assert (A := W 0%nat (or_introl eq_refl) 1%nat). assert (B := W 1%nat (or_intror (or_introl eq_refl)) 1%nat).
    rewrite !P in *. unfold chosen in *. simpl in A, B.
    assert (w 0%nat = 0) as E by (specialize (A ltac:(lia)); specialize (B ltac:(lia)); lra).
    destruct Is as [<-|[<-|[]]]; rewrite E in L; simpl in L; lra.
  - intros [w [_ [_ B]]].
    assert (H0 := B 0%nat (or_introl eq_refl) 1%nat). assert (H1 := B 1%nat (or_intror (or_introl eq_refl)) 1%nat).
    rewrite !P in *. unfold chosen in *. simpl in H0, H1.
    specialize (H0 ltac:(lia) ltac:(lia)). specialize (H1 ltac:(lia) ltac:(lia)). lra.
Qed.
