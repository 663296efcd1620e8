(** Cores: choices that no weights make together (C1), the bound by disjoint cores (C5), and the mixed-integer program
    (C6). *)

From Coq Require Import Reals Lra Lia List ZArith.
From Lpmert Require Import Vectors Selections Gordan.
Import ListNotations.
Open Scope R_scope.

(** ** Cores of choices *)

Section Choices.
  Variable D : nat.
  Variable region : vec -> Prop.
  Variable size : nat -> nat.
  Variable feature : nat -> nat -> vec.

  (** Row k compares the choice x of list [owner k] with its hypothesis [other k]. *)
  Definition comparison (owner other : nat -> nat) (x : nat -> nat) (k : nat) : vec :=
    minus (feature (owner k) (x (owner k))) (feature (owner k) (other k)).

  (** C1 for choices: a selection that contains a core is not attainable, and neither is any selection that agrees with
      it on the lists of the core. *)
  Theorem core_excludes : forall n owner other m x y part,
    balanced D n m (comparison owner other x) ->
    (forall k, (k < n)%nat -> 0 < m k ->
       In (owner k) part /\ (other k < size (owner k))%nat /\ other k <> x (owner k) /\ y (owner k) = x (owner k)) ->
    ~ attainable D region size feature part y.
  Proof.
    intros n owner other m x y part B H [w [_ [V W]]].
    apply (certificate D n m _ B). exists w. intros k Hk Mk.
    destruct (H k Hk Mk) as [I [Ho [No E]]]. unfold comparison. rewrite dot_minus.
    assert (dot D (feature (owner k) (other k)) w < dot D (feature (owner k) (y (owner k))) w).
    { apply W; auto. congruence. }
    rewrite E in *. lra.
  Qed.

  (** Hence every attainable selection deviates from a core somewhere. *)
  Corollary core_deviates : forall n owner other m x y part,
    balanced D n m (comparison owner other x) ->
    (forall k, (k < n)%nat -> 0 < m k ->
       In (owner k) part /\ (other k < size (owner k))%nat /\ other k <> x (owner k)) ->
    attainable D region size feature part y ->
    exists k, (k < n)%nat /\ 0 < m k /\ y (owner k) <> x (owner k).
  Proof.
    intros n owner other m x y part B H A.
    assert (dec : forall i, (i <= n)%nat ->
              (exists k, (k < i)%nat /\ 0 < m k /\ y (owner k) <> x (owner k)) \/
              forall k, (k < i)%nat -> 0 < m k -> y (owner k) = x (owner k)).
    { induction i as [|i IH]; intros Hi; [right; intros; lia|].
      destruct IH as [[k [Hk E]]|E]; [lia | left; exists k; split; [lia | auto] |].
      destruct (Rlt_dec 0 (m i)) as [M|M]; [destruct (Nat.eq_dec (y (owner i)) (x (owner i)))|].
      - right. intros k Hk Mk. destruct (Nat.eq_dec k i) as [->|]; auto. apply E; auto; lia.
      - left. exists i. auto.
      - right. intros k Hk Mk. destruct (Nat.eq_dec k i) as [->|]; [contradiction|]. apply E; auto; lia. }
    destruct (dec n (le_n n)) as [|E]; auto. exfalso.
    refine (core_excludes n owner other m x y part B _ A).
    intros k Hk Mk. destruct (H k Hk Mk) as [I [O N]]. auto.
  Qed.
End Choices.

(** ** C5: disjoint cores *)

Open Scope Z_scope.

(** A core is the list of its undecided lists. [charge] subtracts the least residual of a core from the residuals of its
    lists. [charged] does so for one core after the other and adds up the charges. *)
Fixpoint least (residual : nat -> Z) (core : list nat) : Z :=
  match core with
  | [] => 0
  | [s] => residual s
  | s :: rest => Z.min (residual s) (least residual rest)
  end.

Definition charge (residual : nat -> Z) (core : list nat) : nat -> Z :=
  fun s => if in_dec Nat.eq_dec s core then residual s - least residual core else residual s.

Fixpoint charged (residual : nat -> Z) (cores : list (list nat)) : Z :=
  match cores with
  | [] => 0
  | core :: rest => least residual core + charged (charge residual core) rest
  end.

Lemma charged_ext : forall f g cores, (forall s, f s = g s) -> charged f cores = charged g cores.
Proof.
  intros f g cores. revert f g. induction cores as [|core cores IH]; intros f g E; auto. simpl.
  assert (L : least f core = least g core).
  { induction core as [|s core IHc]; auto. simpl. rewrite E, IHc. reflexivity. }
  rewrite L. f_equal. apply IH. intros s. unfold charge. rewrite L, E. reflexivity.
Qed.

Lemma least_le : forall residual core s, In s core -> least residual core <= residual s.
Proof.
  intros residual. induction core as [|a core IH]; intros s I; [destruct I|].
  destruct core as [|b core].
  - simpl. destruct I as [->|[]]. lia.
  - change (least residual (a :: b :: core)) with (Z.min (residual a) (least residual (b :: core))).
    destruct I as [->|I]; [lia|]. specialize (IH s I). lia.
Qed.

Lemma least_nonneg : forall residual core, (forall s, 0 <= residual s) -> 0 <= least residual core.
Proof.
  intros residual core H. induction core as [|a core IH]; simpl; [lia|].
  destruct core; [apply H|]. specialize (H a). lia.
Qed.

(** Let every core contain a list that deviates from its cheapest choice. Then the residuals of the deviating lists add
    up to at least the charges of all cores. *)
Theorem charges_are_paid : forall cores residual (deviating : list nat),
  NoDup deviating -> (forall s, 0 <= residual s) ->
  (forall core, In core cores -> exists s, In s core /\ In s deviating) ->
  charged residual cores <= total residual deviating.
Proof.
  induction cores as [|core cores IH]; intros residual deviating N P H; simpl.
  - apply total_nonneg. auto.
  - assert (0 <= least residual core) by (apply least_nonneg; auto).
    assert (P' : forall s, 0 <= charge residual core s).
    { intros s. unfold charge. destruct (in_dec Nat.eq_dec s core) as [I|]; auto.
      assert (L := least_le residual core s I). lia. }
    assert (charged (charge residual core) cores <= total (charge residual core) deviating).
    { apply IH; auto. intros; apply H; simpl; auto. }
    assert (total (charge residual core) deviating + least residual core <= total residual deviating); [|lia].
    destruct (H core (or_introl eq_refl)) as [s [Is Ds]]. clear H1 IH H P'.
    induction deviating as [|t deviating IHd]; [destruct Ds|]. inversion N as [|? ? Nt Nd]; subst. simpl.
    assert (Q : total (charge residual core) deviating <= total residual deviating).
    { apply total_le. intros u _. unfold charge. destruct (in_dec Nat.eq_dec u core); lia. }
    destruct Ds as [->|Ds].
    + unfold charge at 1. destruct (in_dec Nat.eq_dec s core); [lia | contradiction].
    + specialize (IHd Nd Ds). unfold charge at 1. destruct (in_dec Nat.eq_dec t core); lia.
Qed.

(** C5: a lower bound on the cost of every attainable selection, for open lists with cheapest candidates p and steps to
    the next cost, and cores among these candidates and the decided choices. *)
Theorem disjoint_cores : forall (cost : nat -> nat -> Z) (open : list nat) (p x : nat -> nat) (step : nat -> Z)
    (cores : list (list nat)),
  NoDup open -> (forall s, 0 <= step s) ->
  (forall s, In s open -> cost s (p s) <= cost s (x s)) ->
  (forall s, In s open -> x s <> p s -> cost s (p s) + step s <= cost s (x s)) ->
  (* no selection contains a core: some open list of the core has another choice *)
  (forall core, In core cores -> exists s, In s core /\ In s open /\ x s <> p s) ->
  total (fun s => cost s (p s)) open + charged step cores <= total (fun s => cost s (x s)) open.
Proof.
  intros cost open p x step cores N P C S H.
  pose (deviating := filter (fun s => if Nat.eq_dec (x s) (p s) then false else true) open).
  assert (charged step cores <= total step deviating).
  { apply charges_are_paid; auto.
    - apply NoDup_filter; auto.
    - intros core I. destruct (H core I) as [s [Is [Os Ns]]]. exists s. split; auto.
      unfold deviating. apply filter_In. split; auto. destruct (Nat.eq_dec (x s) (p s)); auto. }
  assert (total (fun s => cost s (p s)) open + total step deviating <= total (fun s => cost s (x s)) open); [|lia].
  unfold deviating. clear -C S. induction open as [|s open IH]; simpl; [lia|].
  assert (IH' := IH (fun t I => C t (or_intror I)) (fun t I => S t (or_intror I))).
  assert (Cs := C s (or_introl eq_refl)). assert (Ss := S s (or_introl eq_refl)).
  destruct (Nat.eq_dec (x s) (p s)); simpl; [lia|]. specialize (Ss n). lia.
Qed.

(** C5 for any charges, not only those taken one after the other: for each list, the charges of the cores that contain
    it add up to at most its step. So a subset of the cores may count. For a child that decides a list, these are the
    cores that do not contain this list. *)
Theorem any_charges : forall (cost : nat -> nat -> Z) (open : list nat) (p x : nat -> nat) (step : nat -> Z)
    (cores : list (list nat * Z)),
  NoDup open ->
  (forall core, In core cores -> 0 <= snd core) ->
  (forall s, In s open -> total (fun core => if in_dec Nat.eq_dec s (fst core) then snd core else 0) cores <= step s) ->
  (forall s, In s open -> cost s (p s) <= cost s (x s)) ->
  (forall s, In s open -> x s <> p s -> cost s (p s) + step s <= cost s (x s)) ->
  (forall core, In core cores -> exists s, In s (fst core) /\ In s open /\ x s <> p s) ->
  total (fun s => cost s (p s)) open + total snd cores <= total (fun s => cost s (x s)) open.
Proof.
  intros cost open p x step cores N P Step C S H.
  pose (pays := fun s => total (fun core => if in_dec Nat.eq_dec s (fst core) then snd core else 0) cores).
  pose (beyond := fun s => if Nat.eq_dec (x s) (p s) then 0 else pays s).
  assert (Paid : total snd cores <= total beyond open).
  { assert (Deviates : forall core, In core cores -> exists s, In s (fst core) /\ In s open /\ x s <> p s) by auto.
    unfold beyond, pays. clear H Step S C. induction cores as [|core cores IH]; simpl.
    - apply total_nonneg. intros s _. destruct (Nat.eq_dec (x s) (p s)); lia.
    - assert (IH' : total snd cores <= total (fun s => if Nat.eq_dec (x s) (p s) then 0 else
                total (fun core => if in_dec Nat.eq_dec s (fst core) then snd core else 0) cores) open).
      { apply IH; intros; [apply P | apply Deviates]; simpl; auto. }
      clear IH. destruct (Deviates core (or_introl eq_refl)) as [s [Is [Os Ns]]].
      assert (P0 : 0 <= snd core) by (apply P; simpl; auto).
      pose (f := fun s => total (fun core => if in_dec Nat.eq_dec s (fst core) then snd core else 0) cores).
      change (total snd cores <= total (fun s => if Nat.eq_dec (x s) (p s) then 0 else f s) open) in IH'.
      assert (Q : snd core + total (fun s => if Nat.eq_dec (x s) (p s) then 0 else f s) open <=
                total (fun s => if Nat.eq_dec (x s) (p s) then 0 else (if in_dec Nat.eq_dec s (fst core) then snd core else 0) + f s) open).
      { clear IH' Deviates P. induction open as [|t open IHo]; [destruct Os|]. inversion N as [|? ? Nt No]; subst. simpl.
        assert (W : total (fun s => if Nat.eq_dec (x s) (p s) then 0 else f s) open <=
                  total (fun s => if Nat.eq_dec (x s) (p s) then 0 else (if in_dec Nat.eq_dec s (fst core) then snd core else 0) + f s) open).
        { apply total_le. intros u _. destruct (Nat.eq_dec (x u) (p u)), (in_dec Nat.eq_dec u (fst core)); lia. }
        destruct Os as [->|Os].
        - destruct (Nat.eq_dec (x s) (p s)); [contradiction|]. destruct (in_dec Nat.eq_dec s (fst core)); [lia | contradiction].
        - specialize (IHo No Os). destruct (Nat.eq_dec (x t) (p t)), (in_dec Nat.eq_dec t (fst core)); lia. }
      apply Z.le_trans with (snd core + total (fun s => if Nat.eq_dec (x s) (p s) then 0 else f s) open); [lia | exact Q]. }
  assert (total (fun s => cost s (p s)) open + total beyond open <= total (fun s => cost s (x s)) open); [|lia].
  rewrite <- total_add. apply total_le. intros s Is. unfold beyond, pays.
  specialize (C s Is). specialize (Step s Is). destruct (Nat.eq_dec (x s) (p s)) as [|D]; [lia|].
  specialize (S s Is D). lia.
Qed.

(** ** C6: the mixed-integer program *)

Open Scope R_scope.

(** In the box a comparison is at least minus the sum of its magnitudes. So the program demands nothing of a hypothesis
    that is not chosen. A chosen hypothesis must lose no comparison. *)
Theorem switched_off : forall D (r w : vec), (forall d, (d < D)%nat -> -1 <= w d <= 1) ->
  - sum D (fun d => Rabs (r d)) <= dot D r w.
Proof.
  intros D r w B. unfold dot.
  replace (- sum D (fun d => Rabs (r d))) with (-1 * sum D (fun d => Rabs (r d))) by ring.
  rewrite <- sum_scale. apply sum_le. intros d Hd. specialize (B d Hd).
  unfold Rabs. destruct (Rcase_abs (r d)); nra.
Qed.

Theorem switched_on : forall reach product, - reach <= product - reach * 1 <-> 0 <= product.
Proof. intros. split; intros; lra. Qed.
