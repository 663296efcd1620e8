(** Trees of nodes: the bound from closed leaves (T1), costs that are multiples of a common divisor (T2), the bound from
    open nodes (T3), and the frontier over two streams (S4). *)

From Coq Require Import Reals Lra Lia List ZArith Znumtheory.
From Lpmert Require Import Vectors Selections Cones.
Import ListNotations.

(** ** T1 *)

Section Closed.
  Variable solution : Type.
  Variable cost : solution -> Z.
  Open Scope Z_scope.

  (** A node is the set of solutions that it stands for. A leaf is closed if all of its solutions cost at least the
      bound, or if it has no solutions. The children of a split must cover the node. *)
  Inductive closed (bound : Z) : (solution -> Prop) -> Prop :=
  | leaf : forall node : solution -> Prop, (forall x, node x -> bound <= cost x) -> closed bound node
  | branches : forall (node : solution -> Prop) (children : list (solution -> Prop)),
      (forall x, node x -> exists child, In child children /\ child x) ->
      (forall child, In child children -> closed bound child) -> closed bound node.

  Theorem tree_bound : forall bound node, closed bound node -> forall x, node x -> bound <= cost x.
  Proof.
    intros bound node H. induction H as [node H | node children Cover _ IH]; auto.
    intros x Hx. destruct (Cover x Hx) as [child [I C]]. eapply IH; eauto.
  Qed.

  (** T3: when a search stops, its bound is the least of the bounds of the open nodes and the incumbent's cost. *)
  Theorem open_bound : forall (root : solution -> Prop) (nodes : list (solution -> Prop)) (lower : (solution -> Prop) -> Z) incumbent bound,
    (forall x, root x -> incumbent <= cost x \/ exists node, In node nodes /\ node x) ->
    (forall node x, In node nodes -> node x -> lower node <= cost x) ->
    bound <= incumbent -> (forall node, In node nodes -> bound <= lower node) ->
    forall x, root x -> bound <= cost x.
  Proof.
    intros root nodes lower incumbent bound H L I N x Hx.
    destruct (H x Hx) as [|[node [In_ Nx]]]; [lia|].
    specialize (L node x In_ Nx). specialize (N node In_). lia.
  Qed.

  (** T2: if costs are multiples of g, a node whose bound is above the incumbent minus g contains nothing better. *)
  Theorem granularity : forall g incumbent bound x, 0 < g -> (g | cost x) -> (g | incumbent) ->
    incumbent - g < bound -> bound <= cost x -> incumbent <= cost x.
  Proof.
    intros g incumbent bound x G [a A] [b B] H L.
    assert (b - 1 < a) by (apply Z.mul_lt_mono_pos_r with g; lia).
    rewrite A, B. apply Z.mul_le_mono_nonneg_r; lia.
  Qed.
End Closed.

(** The splits of the searches. *)
Section Splits.
  Open Scope R_scope.
  Variable D : nat.
  Variable region : vec -> Prop.
  Variable size : nat -> nat.
  Variable feature : nat -> nat -> vec.
  Variable cost : nat -> nat -> Z.
  Variable part : list nat.

  (** A solution is a selection together with weights that decode to it. *)
  Definition weighted : Type := (vec * (nat -> nat))%type.
  Definition attained (wx : weighted) : Prop :=
    region (fst wx) /\ decodes D size feature (fst wx) part (snd wx).

  (** Choices: a node and one child for every hypothesis of a list. *)
  Theorem choices_cover : forall (node : weighted -> Prop) s, In s part ->
    (forall wx, node wx -> attained wx) -> forall wx, node wx ->
    exists child, In child (map (fun h wx' => node wx' /\ snd wx' s = h) (seq 0 (size s))) /\ child wx.
  Proof.
    intros node s Is A wx N. exists (fun wx' => node wx' /\ snd wx' s = snd wx s). split; auto.
    apply (in_map (fun h wx' => node wx' /\ snd wx' s = h)). apply in_seq.
    destruct (A wx N) as [_ [V _]]. specialize (V s Is). lia.
  Qed.

  (** Cells: a cone and its two parts. *)
  Theorem cells_cover : forall n v p q a b, (p < n)%nat -> (q < n)%nat -> p <> q -> 0 < a -> 0 < b ->
    forall wx, attained wx /\ in_cone D n v (fst wx) ->
    exists node : weighted -> Prop, In node [(fun wx' => attained wx' /\ in_cone D n (child v p q a b p) (fst wx'));
                                             (fun wx' => attained wx' /\ in_cone D n (child v p q a b q) (fst wx'))] /\ node wx.
  Proof.
    intros n v p q a b Hp Hq N A B wx [T C].
    destruct (parts_cover D n v p q a b (fst wx) Hp Hq N A B C) as [H|H].
    - eexists. split; [left; reflexivity | simpl; auto].
    - eexists. split; [right; left; reflexivity | simpl; auto].
  Qed.

  (** A bound for pairs of weights and selections is a bound for selections, because every attainable selection has
      weights. *)
  Theorem bound_for_selections : forall bound,
    closed weighted (fun wx => costs cost part (snd wx)) bound attained ->
    forall x, attainable D region size feature part x -> (bound <= costs cost part x)%Z.
  Proof.
    intros bound H x [w W].
    exact (tree_bound weighted (fun wx => costs cost part (snd wx)) bound attained H (w, x) W).
  Qed.
End Splits.

(** ** S4: the frontier over two streams (Algorithm 2) *)

Section Frontier.
  Open Scope Z_scope.
  Definition cell : Type := (nat * nat)%type.

  (** The cells that come after a cell: the cells to its right; for a cell of the first column, also all later rows. *)
  Definition after (c c' : cell) : Prop :=
    (fst c' = fst c /\ (snd c <= snd c')%nat) \/ (snd c = 0%nat /\ (fst c <= fst c')%nat).

  Definition successors (c : cell) : list cell :=
    (fst c, S (snd c)) :: (if Nat.eqb (snd c) 0 then [(S (fst c), 0%nat)] else []).

  (** Every cell has been visited or comes after one of the frontier. *)
  Definition covered (frontier visited : list cell) : Prop :=
    forall c, In c visited \/ exists f, In f frontier /\ after f c.

  Theorem frontier_starts : covered [(0%nat, 0%nat)] [].
  Proof. intros [m n]. right. exists (0%nat, 0%nat). split; [left; auto|]. right. simpl. lia. Qed.

  Theorem frontier_steps : forall frontier visited before c behind,
    frontier = before ++ c :: behind -> covered frontier visited ->
    covered (successors c ++ before ++ behind) (c :: visited).
  Proof.
    intros frontier visited before [m n] behind -> H [i j].
    destruct (H (i, j)) as [V|[[f g] [I A]]]; [left; right; auto|].
    apply in_app_or in I. destruct I as [I|[E|I]].
    - right. exists (f, g). split; auto. apply in_or_app. right. apply in_or_app. auto.
    - inversion E; subst f g. destruct A as [[A1 A2]|[A1 A2]]; simpl in *.
      + destruct (Nat.eq_dec j n) as [->|]; [left; left; congruence|].
        right. exists (m, S n). split; [left; auto|]. left. simpl. lia.
      + subst n. destruct (Nat.eq_dec i m) as [->|].
        * destruct (Nat.eq_dec j 0) as [->|]; [left; left; auto|].
          right. exists (m, 1%nat). split; [left; auto|]. left. simpl. lia.
        * right. exists (S m, 0%nat). split; [right; left; auto|]. right. simpl. lia.
    - right. exists (f, g). split; auto. apply in_or_app. right. apply in_or_app. auto.
  Qed.

  (** No cell enters twice: each cell is a successor of one cell only, and the first cell of none. *)
  Theorem one_parent : forall a b c, In c (successors a) -> In c (successors b) -> a = b.
  Proof.
    intros [m n] [i j] c A B. unfold successors in *. simpl in *.
    destruct (Nat.eqb_spec n 0), (Nat.eqb_spec j 0); simpl in *;
      repeat match goal with H : _ \/ _ |- _ => destruct H end; subst; try contradiction; congruence.
  Qed.

  Theorem first_has_no_parent : forall a, ~ In (0%nat, 0%nat) (successors a).
  Proof.
    intros [m n] A. unfold successors in A. simpl in A.
    destruct (Nat.eqb_spec n 0); simpl in A; repeat match goal with H : _ \/ _ |- _ => destruct H end; try contradiction; discriminate.
  Qed.

  (** Let both streams be in order of cost, and let a cell that is not yet known count with a lower bound. Then the
      least of the frontier is a bound for all combinations that have not been visited. *)
  Theorem frontier_bound : forall frontier visited (left right : nat -> Z) (known : cell -> Z) bound,
    (forall i j, (i <= j)%nat -> left i <= left j) -> (forall i j, (i <= j)%nat -> right i <= right j) ->
    covered frontier visited ->
    (forall c, In c frontier -> known c <= left (fst c) + right (snd c)) ->
    (forall c, In c frontier -> bound <= known c) ->
    forall c, ~ In c visited -> bound <= left (fst c) + right (snd c).
  Proof.
    intros frontier visited left right known bound L R C K B c N.
    destruct (C c) as [V|[f [I A]]]; [contradiction|].
    specialize (K f I). specialize (B f I).
    destruct A as [[A1 A2]|[A1 A2]].
    - rewrite A1. specialize (R _ _ A2). lia.
    - specialize (L _ _ A2). specialize (R (snd f) (snd c)). rewrite A1 in *. specialize (R ltac:(lia)). lia.
  Qed.
End Frontier.
