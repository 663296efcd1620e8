(** Every claim that the checker of proof trees accepts is true for all real weights (T4). *)

From Coq Require Import Reals Lra Lia List ZArith Bool.
From Lpmert Require Import Vectors Selections Cores Cones Checker.
Import ListNotations.

Section Soundness.
  Variable D : nat.
  Variable problem : list (list hypothesis).
  Variable target : Z.

  (** ** Cores *)

  Open Scope R_scope.

  Lemma total_real : forall {A} (f : A -> Z) l, IZR (total f l) = fold_right (fun a acc => IZR (f a) + acc) 0 l.
  Proof. induction l; simpl; auto. now rewrite plus_IZR, IHl. Qed.

  (** No weights attain a selection that agrees with the choices of a core. *)
  Lemma core_sound : forall choice cone rows w x,
    is_core D problem choice cone rows = true -> decodes D (size problem) (feature problem) w (part problem) x ->
    match cone with None => True | Some v => in_cone D (length v) (ray_of v) w end ->
    (forall s h, In s (map (fun r : row => fst (snd r)) rows) -> choice s = Some h -> x s = h) -> False.
  Proof.
    intros choice cone rows w x C [V B] W H. unfold is_core in C.
    apply andb_true_iff in C. destruct C as [C Z]. apply andb_true_iff in C. destruct C as [N R].
    rewrite forallb_forall in R.
    (* the sum of the rows has a positive product with w *)
    assert (P : 0 < dot D (real (sum_of_rows D problem choice rows)) w).
    { assert (E : dot D (real (sum_of_rows D problem choice rows)) w =
                fold_right (fun r acc => sum D (fun d => IZR (row_entry problem choice d r) * w d) + acc) 0 rows).
      { unfold dot. transitivity (sum D (fun d => IZR (total (row_entry problem choice d) rows) * w d)).
        - apply sum_ext. intros d Hd. unfold real, sum_of_rows. now rewrite entry_map.
        - clear. induction rows as [|r rows IH]; simpl.
          + apply sum_zero. intros. ring.
          + rewrite <- IH, <- sum_add. apply sum_ext. intros. rewrite plus_IZR. ring. }
      rewrite E. clear E Z W.
      assert (Pos : forall r, In r rows -> 0 < sum D (fun d => IZR (row_entry problem choice d r) * w d)).
      { intros [m [s other]] I. specialize (R _ I). simpl in R.
        destruct (choice s) as [h|] eqn:Ch; [|discriminate].
        rewrite !andb_true_iff, Z.ltb_lt, !Nat.ltb_lt, negb_true_iff, Nat.eqb_neq in R.
        destruct R as [[[Rm Rs] Ro] Rn].
        assert (Xs : x s = h) by (apply H; auto; apply (in_map (fun r : row => fst (snd r)) rows (m, (s, other))), I).
        assert (Is : In s (part problem)) by (apply in_seq; lia).
        assert (L := B s Is other Ro). rewrite Xs in L. specialize (L Rn).
        apply Rlt_le_trans with (IZR m * (dot D (feature problem s h) w - dot D (feature problem s other) w)).
        - apply Rmult_lt_0_compat; [apply IZR_lt; auto | lra].
        - right. rewrite <- dot_minus. unfold dot. rewrite <- sum_scale. apply sum_ext. intros d _.
          unfold row_entry. rewrite Ch, mult_IZR, minus_IZR. unfold minus, feature, real. ring. }
      destruct rows as [|r rows]; [discriminate|].
      assert (0 < sum D (fun d => IZR (row_entry problem choice d r) * w d)) by (apply Pos; left; auto).
      assert (0 <= fold_right (fun r acc => sum D (fun d => IZR (row_entry problem choice d r) * w d) + acc) 0 rows).
      { clear -Pos. induction rows as [|q rows IH]; simpl; [lra|].
        assert (0 < sum D (fun d => IZR (row_entry problem choice d q) * w d)) by (apply Pos; right; left; auto).
        assert (0 <= fold_right (fun r acc => sum D (fun d => IZR (row_entry problem choice d r) * w d) + acc) 0 rows).
        { apply IH. intros a [->|I]; apply Pos; [left; auto | right; right; auto]. } lra. }
      simpl. lra. }
    destruct cone as [v|].
    - (* in a cone, a product of at most 0 with all rays contradicts this *)
      rewrite forallb_forall in Z.
      assert (L : dot D (real (sum_of_rows D problem choice rows)) w <= dot D zero w); [|rewrite dot_zero in L; lra].
      apply order_in_the_cone with (n := length v) (v := ray_of v); auto.
      intros k Hk. rewrite dot_zero. unfold ray_of. rewrite dot_real. apply IZR_le, Z.leb_le, Z, nth_In. auto.
    - rewrite forallb_forall in Z.
      rewrite (dot_same D (real (sum_of_rows D problem choice rows)) zero) in P; [rewrite dot_zero in P; lra|].
      intros d Hd. unfold real, zero. apply (f_equal IZR (x := entry _ d) (y := 0%Z)).
      symmetry. apply Z.eqb_eq, Z. unfold entry. apply nth_In. unfold sum_of_rows. rewrite map_length, seq_length. auto.
  Qed.

  (** ** Bounds *)

  Open Scope Z_scope.

  Lemma cheapest_of_in : forall s l k, cheapest_of problem s l = Some k -> In k l.
  Proof.
    induction l as [|j l IH]; intros k E; simpl in *; [discriminate|].
    destruct (cheapest_of problem s l) as [i|]; [destruct (price (hyp problem s i) <? price (hyp problem s j))|]; inversion E; subst; auto.
  Qed.

  Lemma cheapest_of_least : forall s l k j, cheapest_of problem s l = Some k -> In j l -> price (hyp problem s k) <= price (hyp problem s j).
  Proof.
    induction l as [|i l IH]; intros k j E I; simpl in *; [destruct I|].
    destruct (cheapest_of problem s l) as [q|] eqn:Q.
    - destruct (Z.ltb_spec (price (hyp problem s q)) (price (hyp problem s i))); inversion E; subst; destruct I as [->|I]; try lia.
      + apply IH; auto.
      + specialize (IH q j eq_refl I). lia.
    - inversion E; subst. destruct I as [->|I]; [lia|].
      destruct l as [|a l]; [destruct I|]. simpl in Q. destruct (cheapest_of problem s l) as [b|]; [|discriminate].
      destruct (price (hyp problem s b) <? price (hyp problem s a)); discriminate.
  Qed.

  Lemma cheapest_of_none : forall s l, cheapest_of problem s l = None -> l = [].
  Proof.
    intros s [|j l] E; auto. simpl in E. destruct (cheapest_of problem s l) as [k|]; [|discriminate].
    destruct (price (hyp problem s k) <? price (hyp problem s j)); discriminate.
  Qed.

  Lemma is_a_candidate : forall st w x s, stands D problem st w x -> In s (part problem) -> In (x s) (candidates problem st s).
  Proof.
    intros st w x s [[V _] [_ [_ E]]] I. apply filter_In. split; [apply in_seq; specialize (V s I); lia|].
    apply negb_true_iff. unfold is_excluded. destruct (existsb _ (excluded st)) eqn:X; auto. exfalso.
    apply existsb_exists in X. destruct X as [[t h] [Ie Eq]]. simpl in Eq.
    apply andb_true_iff in Eq. rewrite !Nat.eqb_eq in Eq. destruct Eq as [-> ->]. now apply (E s (x s)).
  Qed.

  Lemma chosen_is_kept : forall st w x s h, stands D problem st w x -> lookup (chosen st) s = Some h -> x s = h.
  Proof. intros st w x s h [_ [_ [C _]]] L. apply C, lookup_in, L. Qed.

  Lemma bounded_sound : forall st cores w x, bounded D problem target st cores = true -> stands D problem st w x ->
    target <= costs (cost problem) (part problem) x.
  Proof.
    intros st cores w x H S. assert (S' := S). destruct S' as [Dec [Cone [Ch Ex]]].
    apply orb_true_iff in H. destruct H as [H|H].
    { (* a list without candidates *)
      exfalso. apply existsb_exists in H. destruct H as [s [Is H]].
      unfold has_no_candidate, cheapest in H.
      destruct (lookup (chosen st) s) eqn:L; [discriminate|].
      destruct (cheapest_of problem s (candidates problem st s)) eqn:Q; [discriminate|].
      apply cheapest_of_none in Q. assert (I := is_a_candidate st w x s S Is). rewrite Q in I. destruct I. }
    apply andb_true_iff in H. destruct H as [HC HT]. rewrite forallb_forall in HC. apply Z.leb_le in HT.
    destruct (Z_lt_le_dec (costs (cost problem) (part problem) x) target) as [Less|]; auto. exfalso.
    pose (p := pointer problem st). pose (open := filter (is_open st) (part problem)).
    (* pointers *)
    assert (Kept : forall s h, lookup (chosen st) s = Some h -> p s = h /\ x s = h).
    { intros s h L. split; [unfold p, pointer, cheapest; now rewrite L | eapply chosen_is_kept; eauto]. }
    assert (Least : forall s, In s (part problem) -> price (hyp problem s (p s)) <= price (hyp problem s (x s))).
    { intros s Is. destruct (lookup (chosen st) s) as [h|] eqn:L.
      - destruct (Kept s h L) as [-> ->]. lia.
      - assert (I := is_a_candidate st w x s S Is). unfold p, pointer, cheapest. rewrite L.
        destruct (cheapest_of problem s (candidates problem st s)) as [k|] eqn:Q.
        + eapply cheapest_of_least; eauto.
        + apply cheapest_of_none in Q. rewrite Q in I. destruct I. }
    assert (Nonneg : forall s, 0 <= step problem target st s) by (intros s; unfold step; destruct (cheapest_of problem s _); lia).
    assert (Base : (base problem) st <= costs (cost problem) (part problem) x) by (apply total_le; auto).
    assert (Steps : forall s, In s open -> x s <> p s -> cost problem s (p s) + (step problem target) st s <= cost problem s (x s)).
    { intros s Io N. apply filter_In in Io. destruct Io as [Is Io]. specialize (Least s Is).
      assert (I := is_a_candidate st w x s S Is).
      assert (I' : In (x s) (remove Nat.eq_dec (p s) (candidates problem st s))) by (apply in_in_remove; auto).
      unfold step, cost. fold p.
      destruct (cheapest_of problem s (remove Nat.eq_dec (p s) (candidates problem st s))) as [k|] eqn:Q.
      - assert (M := cheapest_of_least _ _ _ _ Q I'). lia.
      - apply cheapest_of_none in Q. rewrite Q in I'. destruct I'. }
    (* every core contains an open list that deviates *)
    assert (Deviates : forall core, In core (map (open_lists st) cores) ->
              exists s, In s core /\ In s open /\ x s <> p s).
    { intros core Ic. apply in_map_iff in Ic. destruct Ic as [rows [<- Ir]]. specialize (HC rows Ir).
      destruct (existsb (fun s => negb (Nat.eqb (x s) (p s))) (open_lists st rows)) eqn:X.
      - apply existsb_exists in X. destruct X as [s [Is N]]. exists s.
        apply negb_true_iff, Nat.eqb_neq in N. repeat split; auto.
        unfold open_lists in Is. apply nodup_In, filter_In in Is. destruct Is as [Is Io].
        apply filter_In. split; auto.
        apply in_map_iff in Is. destruct Is as [[m [t other]] [<- It]].
        unfold is_core in HC. rewrite !andb_true_iff, forallb_forall in HC. destruct HC as [[_ V] _].
        specialize (V _ It). simpl in V |- *. destruct (cheapest problem st t); [|discriminate].
        rewrite !andb_true_iff, !Nat.ltb_lt in V. apply in_seq. lia.
      - exfalso. apply (core_sound (cheapest problem st) (rays st) rows w x HC Dec Cone).
        intros s h Is E. destruct (lookup (chosen st) s) as [k|] eqn:L.
        + unfold cheapest in E. rewrite L in E. inversion E; subst. eapply chosen_is_kept; eauto.
        + assert (Q : In s (open_lists st rows)).
          { apply nodup_In, filter_In. split; auto. unfold is_open. now rewrite L. }
          assert (Y : negb (Nat.eqb (x s) (p s)) = false).
          { destruct (negb (Nat.eqb (x s) (p s))) eqn:T; auto.
            assert (existsb (fun s => negb (Nat.eqb (x s) (p s))) (open_lists st rows) = true); [|congruence].
            apply existsb_exists. exists s. auto. }
          apply negb_false_iff, Nat.eqb_eq in Y. rewrite Y. unfold p, pointer. now rewrite E. }
    assert (Sum := disjoint_cores (cost problem) open p x (step problem target st) (map (open_lists st) cores)
                     (NoDup_filter _ (seq_NoDup _ _)) Nonneg
                     (fun s I => Least s (proj1 (proj1 (filter_In _ _ _) I))) Steps Deviates).
    (* decided lists cost the same on both sides *)
    assert (Rest : (base problem) st + total (fun s => cost problem s (x s)) open <= costs (cost problem) (part problem) x + total (fun s => cost problem s (p s)) open).
    { unfold base, costs, open. fold p. clear -Least. change (fun s => price (hyp problem s (p s))) with (fun s => cost problem s (p s)).
      induction (part problem) as [|s l IH]; simpl; [lia|].
      assert (Ls : (cost problem) s (p s) <= cost problem s (x s)) by (apply Least; left; auto).
      assert (IH' := IH (fun t I => Least t (or_intror I))).
      destruct (is_open st s); simpl; lia. }
    lia.
  Qed.

  (** ** Splits *)

  Lemma length_replace : forall v k a, length (replace_at k a v) = length v.
  Proof. induction v as [|b v IH]; intros [|k] a; simpl; auto. Qed.

  Lemma nth_replace : forall v k a i, (k < length v)%nat ->
    nth i (replace_at k a v) [] = if Nat.eqb i k then a else nth i v [].
  Proof.
    induction v as [|b v IH]; intros k a i H; simpl in H; [lia|].
    destruct k as [|k], i as [|i]; simpl; auto. apply IH. lia.
  Qed.

  Open Scope R_scope.

  Lemma part_sound : forall v p q a b r w, (p < length v)%nat -> (q < length v)%nat -> (r < length v)%nat ->
    in_cone D (length v) (child (ray_of v) p q (IZR a) (IZR b) r) w ->
    in_cone D (length (part_of D v p q a b r)) (ray_of (part_of D v p q a b r)) w.
  Proof.
    intros v p q a b r w Hp Hq Hr [x [P E]]. unfold part_of. rewrite length_replace.
    exists x. split; auto.
    intros d Hd. rewrite E by auto. unfold combine. apply sum_ext. intros k Hk.
    unfold child, ray_of. rewrite nth_replace by auto. destruct (Nat.eqb k r); auto.
    unfold between, times, plus, real, mixed. rewrite entry_map, plus_IZR, !mult_IZR by auto. unfold ray_of, real. lra.
  Qed.

  Lemma orthants_sound : forall w, exists number, (number < 2 ^ D)%nat /\
    in_cone D (length (orthant D number)) (ray_of (orthant D number)) w.
  Proof.
    intros w. destruct (orthants_cover D w) as [sign [Sg [x [P E]]]].
    (* the number whose bits are the negative signs *)
    assert (B : forall n, exists number, (number < 2 ^ n)%nat /\
              forall k, (k < n)%nat -> Nat.testbit number k = if Rlt_dec (sign k) 0 then true else false).
    { induction n as [|n [number [L T]]].
      - exists 0%nat. split; [simpl; lia|]. intros k Hk. lia.
      - destruct (Rlt_dec (sign n) 0) as [Neg|Pos].
        + exists (number + 2 ^ n)%nat. split; [simpl; lia|]. intros k Hk.
          destruct (Nat.eq_dec k n) as [->|N].
          * destruct (Rlt_dec (sign n) 0); [|contradiction].
            rewrite Nat.testbit_eqb. replace ((number + 2 ^ n) / 2 ^ n)%nat with 1%nat; auto.
            apply Nat.div_unique with number; lia.
          * rewrite <- T by lia. rewrite !Nat.testbit_eqb. f_equal.
            assert (Pow : (2 ^ n = 2 ^ (n - k - 1) * 2 * 2 ^ k)%nat).
            { replace n with (S (n - k - 1) + k)%nat at 1 by lia. rewrite Nat.pow_add_r, Nat.pow_succ_r'. lia. }
            rewrite Pow, Nat.div_add, Nat.mod_add by (try apply Nat.pow_nonzero; lia). reflexivity.
        + exists number. split; [simpl; lia|]. intros k Hk. destruct (Nat.eq_dec k n) as [->|N]; [|apply T; lia].
          destruct (Rlt_dec (sign n) 0); [contradiction|].
          rewrite Nat.testbit_eqb, Nat.div_small by auto. reflexivity. }
    destruct (B D) as [number [L T]]. exists number. split; auto.
    unfold orthant. rewrite map_length, seq_length. exists x. split; auto.
    intros d Hd. rewrite E by auto. unfold combine. apply sum_ext. intros k Hk. f_equal.
    unfold ray_of. rewrite (nth_indep _ [] (unit D 0 (if Nat.testbit number 0 then -1 else 1)%Z)) by (rewrite map_length, seq_length; auto).
    rewrite (map_nth (fun k => unit D k (if Nat.testbit number k then -1 else 1)%Z)), seq_nth by auto. simpl.
    unfold real, unit. rewrite entry_map by auto. rewrite T by auto. unfold single.
    destruct (Nat.eqb d k); auto. specialize (Sg k). destruct (Rlt_dec (sign k) 0); destruct Sg; lra.
  Qed.

  (** A sum over all indices except one whose coefficient is 0. *)
  Lemma sum_filter : forall n q (f : nat -> R), f q = 0 ->
    exists g : nat -> nat, let l := filter (fun k => negb (Nat.eqb k q)) (seq 0 n) in
      (forall i, (i < length l)%nat -> g i = nth i l 0%nat /\ (g i < n)%nat /\ g i <> q) /\
      sum (length l) (fun i => f (g i)) = sum n f.
  Proof.
    intros n q f Z. exists (fun i => nth i (filter (fun k => negb (Nat.eqb k q)) (seq 0 n)) 0%nat).
    set (l := filter (fun k => negb (Nat.eqb k q)) (seq 0 n)). simpl. split.
    - intros i Hi. split; auto. assert (I : In (nth i l 0%nat) l) by (apply nth_In; auto).
      unfold l in I at 2. apply filter_In in I. destruct I as [I N]. apply in_seq in I.
      apply negb_true_iff, Nat.eqb_neq in N. split; [lia | auto].
    - unfold l. clear l. induction n as [|n IH]; auto.
      rewrite seq_S, filter_app, app_length. simpl.
      destruct (Nat.eqb_spec n q) as [->|N]; simpl.
      + rewrite Nat.add_0_r, app_nil_r. rewrite IH. lra.
      + rewrite Nat.add_1_r. simpl. rewrite app_nth2, Nat.sub_diag by lia. simpl. f_equal. rewrite <- IH.
        apply sum_ext. intros i Hi. f_equal. apply app_nth1. auto.
  Qed.

  Lemma simplex_sound : forall w, exists q, (q < S D)%nat /\
    in_cone D (length (all_but D q)) (ray_of (all_but D q)) w.
  Proof.
    intros w. destruct (simplex_covers D w) as [q [x [Hq [Z [P E]]]]]. exists q. split; [lia|].
    unfold all_but. rewrite map_length.
    set (l := filter (fun k => negb (Nat.eqb k q)) (seq 0 (S D))).
    exists (fun i => x (nth i l 0%nat)). split.
    - intros i Hi. apply P. assert (I : In (nth i l 0%nat) l) by (apply nth_In; auto).
      unfold l in I at 2. apply filter_In in I. destruct I as [I _]. apply in_seq in I. lia.
    - intros d Hd. rewrite E by auto. unfold combine.
      destruct (sum_filter (S D) q (fun k => x k * corner D k d)) as [g [G <-]]; [rewrite Z; ring|].
      fold l in G |- *. apply sum_ext. intros i Hi. destruct (G i Hi) as [-> [L _]]. f_equal.
      unfold ray_of. rewrite (nth_indep _ [] (corner_vector D 0)) by (rewrite map_length; auto).
      rewrite map_nth. unfold corner, corner_vector, real.
      destruct (Nat.eqb_spec (nth i l 0%nat) D) as [Eq|Ne].
      + unfold entry. rewrite (nth_indep _ 0%Z (-1)%Z) by (rewrite map_length, seq_length; auto).
        now rewrite (map_nth (fun _ => (-1)%Z)).
      + unfold unit. rewrite entry_map by auto. unfold single. destruct (Nat.eqb d (nth i l 0%nat)); auto.
  Qed.

  (** ** The checker is sound *)

  Definition each := fix each (l : list tree) (i : nat) (into : nat -> state) : bool :=
    match l with
    | [] => true
    | c :: rest => check D problem target c (into i) && each rest (S i) into
    end.

  Lemma each_nth : forall l i into k c, each l i into = true -> nth_error l k = Some c -> check D problem target c (into (i + k)%nat) = true.
  Proof.
    induction l as [|t l IH]; intros i into k c E N; [destruct k; discriminate|].
    simpl in E. apply andb_true_iff in E. destruct E as [E1 E2]. destruct k as [|k]; simpl in N.
    - inversion N; subst. now rewrite Nat.add_0_r.
    - replace (i + S k)%nat with (S i + k)%nat by lia. eapply IH; eauto.
  Qed.

  Lemma one_of_each : forall (l : list tree) into k w x,
    Forall (fun t => forall st, check D problem target t st = true -> forall w x, stands D problem st w x -> (target <= costs (cost problem) (part problem) x)%Z) l ->
    each l 0 into = true -> (k < length l)%nat -> stands D problem (into k) w x -> (target <= costs (cost problem) (part problem) x)%Z.
  Proof.
    intros l into k w x F E L S. destruct (nth_error l k) as [c|] eqn:N.
    - rewrite Forall_forall in F. eapply F; [eapply nth_error_In; eauto | | eauto].
      exact (each_nth l 0 into k c E N).
    - apply nth_error_None in N. lia.
  Qed.

  Theorem check_node : forall t st, check D problem target t st = true ->
    forall w x, stands D problem st w x -> (target <= costs (cost problem) (part problem) x)%Z.
  Proof.
    induction t as [rows|cores|s h rows rest IH|s h j rest IH|s children IH|p q a b first second IHa IHb|children IH|children IH]
      using tree_induction; intros st C w x St; assert (St' := St); destruct St' as [Dec [Cone [Ch Ex]]].
    - exfalso. apply (core_sound (lookup (chosen st)) (rays st) rows w x C Dec Cone).
      intros s h _ L. apply Ch, lookup_in, L.
    - eapply bounded_sound; eauto.
    - simpl in C. apply andb_true_iff in C. destruct C as [C1 C2].
      apply (IH _ C2 w x). repeat split; try apply Dec; auto.
      intros t k [Eq|I]; [|apply Ex; auto]. inversion Eq; subst t k. intros X.
      apply (core_sound _ _ rows w x C1 Dec Cone). intros t k _ L. apply (lookup_in ((s, h) :: chosen st)) in L.
      destruct L as [Eq'|I]; [congruence | now apply Ch].
    - simpl in C. apply andb_true_iff in C. destruct C as [C1 C2].
      apply (IH _ C2 w x). repeat split; try apply Dec; auto.
      intros t k [Eq|I]; [|apply Ex; auto]. inversion Eq; subst t k. intros X.
      unfold is_beaten in C1. destruct (rays st) as [v|]; [|discriminate].
      rewrite !andb_true_iff, !Nat.ltb_lt, negb_true_iff, Nat.eqb_neq, forallb_forall in C1.
      destruct C1 as [[[Hs Hj] Nj] All]. destruct Dec as [V B].
      assert (Is : In s (part problem)) by (apply in_seq; lia).
      apply (beaten_never_wins D (length v) (ray_of v) (size problem) (feature problem) w s h Cone).
      + exists j. repeat split; auto. intros k Hk. unfold feature, ray_of. rewrite !dot_real.
        apply IZR_le, Z.leb_le, All, nth_In. auto.
      + rewrite <- X. now apply B.
    - change (Nat.ltb s (length problem) && Nat.eqb (length children) (size problem s) && each children 0 (choose st s) = true) in C.
      rewrite !andb_true_iff, Nat.ltb_lt, Nat.eqb_eq in C. destruct C as [[Hs Len] C].
      assert (Is : In s (part problem)) by (apply in_seq; lia).
      apply (one_of_each children (choose st s) (x s) w x IH C).
      + rewrite Len. destruct Dec as [V _]. now apply V.
      + repeat split; try apply Dec; auto. intros t k [Eq|I]; [inversion Eq; auto | now apply Ch].
    - simpl in C. destruct (rays st) as [v|] eqn:Rays; [|discriminate].
      rewrite !andb_true_iff, !Nat.ltb_lt, !Z.ltb_lt, negb_true_iff, Nat.eqb_neq in C.
      destruct C as [[[[[[Hp Hq] N] Ha] Hb] Ca] Cb].
      destruct (parts_cover D (length v) (ray_of v) p q (IZR a) (IZR b) w Hp Hq N (IZR_lt 0 a Ha) (IZR_lt 0 b Hb) Cone) as [H|H].
      + apply (IHa _ Ca w x). repeat split; try apply Dec; auto. simpl. now apply part_sound.
      + apply (IHb _ Cb w x). repeat split; try apply Dec; auto. simpl. now apply part_sound.
    - change (match rays st with Some _ => false | None =>
                Nat.eqb (length children) (2 ^ D) && each children 0 (fun i => within st (orthant D i)) end = true) in C.
      destruct (rays st) eqn:Rays; [discriminate|]. apply andb_true_iff in C. destruct C as [Len C]. apply Nat.eqb_eq in Len.
      destruct (orthants_sound w) as [number [L In_]].
      apply (one_of_each children (fun i => within st (orthant D i)) number w x IH C); [lia|].
      repeat split; try apply Dec; auto.
    - change (match rays st with Some _ => false | None =>
                Nat.eqb (length children) (S D) && each children 0 (fun i => within st (all_but D i)) end = true) in C.
      destruct (rays st) eqn:Rays; [discriminate|]. apply andb_true_iff in C. destruct C as [Len C]. apply Nat.eqb_eq in Len.
      destruct (simplex_sound w) as [q [L In_]].
      apply (one_of_each children (fun i => within st (all_but D i)) q w x IH C); [lia|].
      repeat split; try apply Dec; auto.
  Qed.

  (** T4: a target that the checker accepts is a lower bound on the cost of every attainable selection. *)
  Theorem check_sound : forall t, check D problem target t start = true ->
    forall x, attainable D (fun _ => True) (size problem) (feature problem) (part problem) x -> (target <= costs (cost problem) (part problem) x)%Z.
  Proof.
    intros t C x [w [_ Dec]]. apply (check_node t start C w x).
    repeat split; try apply Dec; simpl; auto; intros s h [].
  Qed.
End Soundness.
