(** A checker of proof trees in integer arithmetic (T4). Soundness.v proves that every claim it accepts is true.

    Features are integers: rows of doubles become integers when they are multiplied by a power of two. *)

From Coq Require Import Reals Lra Lia List ZArith Bool Permutation.
From Lpmert Require Import Vectors Selections Cores Cones.
Import ListNotations.

Definition vector := list Z.

Record hypothesis := { features : vector; price : Z }.

(** A node of a proof. Rows are (multiplier, list, other hypothesis). *)
Definition row : Type := (Z * (nat * nat))%type.

Inductive tree :=
  | Core (rows : list row)                              (* the choices made contain a core *)
  | Bounded (cores : list (list row))                   (* the bound of the node, with disjoint cores, is enough *)
  | Exclude (s h : nat) (rows : list row) (rest : tree) (* the choices made and h of list s contain a core *)
  | Beaten (s h j : nat) (rest : tree)                  (* h is equalled or beaten by j at all rays *)
  | Branch (s : nat) (children : list tree)             (* one child for each hypothesis of list s *)
  | Split (p q : nat) (a b : Z) (first second : tree)   (* the cone's parts at a times ray p and b times ray q *)
  | Orthants (children : list tree)                     (* one child for each orthant *)
  | Simplex (children : list tree).                     (* one child for each cone of the simplex *)

(** Induction that reaches into the lists of children. *)
Lemma tree_induction : forall P : tree -> Prop,
  (forall rows, P (Core rows)) -> (forall cores, P (Bounded cores)) ->
  (forall s h rows rest, P rest -> P (Exclude s h rows rest)) ->
  (forall s h j rest, P rest -> P (Beaten s h j rest)) ->
  (forall s children, Forall P children -> P (Branch s children)) ->
  (forall p q a b first second, P first -> P second -> P (Split p q a b first second)) ->
  (forall children, Forall P children -> P (Orthants children)) ->
  (forall children, Forall P children -> P (Simplex children)) ->
  forall t, P t.
Proof.
  intros P H1 H2 H3 H4 H5 H6 H7 H8. fix IH 1. intros [rows|cores|s h rows rest|s h j rest|s children|p q a b first second|children|children].
  - apply H1.
  - apply H2.
  - apply H3, IH.
  - apply H4, IH.
  - apply H5. induction children; constructor; auto.
  - apply H6; apply IH.
  - apply H7. induction children; constructor; auto.
  - apply H8. induction children; constructor; auto.
Qed.

(** The state of a node: the rays of its cone (none: all weights), the choices made, the hypotheses excluded. *)
Record state := { rays : option (list vector); chosen : list (nat * nat); excluded : list (nat * nat) }.

Section Checker.
  Variable D : nat.
  Variable problem : list (list hypothesis).
  Variable target : Z.

  Open Scope Z_scope.

  Definition nothing : hypothesis := {| features := []; price := 0 |}.
  Definition hyp (s j : nat) : hypothesis := nth j (nth s problem []) nothing.
  Definition size (s : nat) : nat := length (nth s problem []).
  Definition entry (a : vector) (d : nat) : Z := nth d a 0.
  Definition zdot (a b : vector) : Z := total (fun d => entry a d * entry b d) (seq 0 D).
  Definition part : list nat := seq 0 (length problem).

  Fixpoint lookup (choices : list (nat * nat)) (s : nat) : option nat :=
    match choices with
    | [] => None
    | (t, h) :: rest => if Nat.eqb t s then Some h else lookup rest s
    end.

  (** The rows of a core, given the choice of each list. Their sum must be 0 or, within a cone, have no positive product
    with any ray. *)
  Definition valid_row (choice : nat -> option nat) (r : row) : bool :=
    let '(m, (s, other)) := r in
    match choice s with
    | Some h => (0 <? m) && Nat.ltb s (length problem) && Nat.ltb other (size s) && negb (Nat.eqb other h)
    | None => false
    end.

  Definition row_entry (choice : nat -> option nat) (d : nat) (r : row) : Z :=
    let '(m, (s, other)) := r in
    match choice s with
    | Some h => m * (entry (features (hyp s h)) d - entry (features (hyp s other)) d)
    | None => 0
    end.

  Definition sum_of_rows (choice : nat -> option nat) (rows : list row) : vector :=
    map (fun d => total (row_entry choice d) rows) (seq 0 D).

  Definition is_core (choice : nat -> option nat) (cone : option (list vector)) (rows : list row) : bool :=
    negb (Nat.eqb (length rows) 0) && forallb (valid_row choice) rows &&
    match cone with
    | None => forallb (Z.eqb 0) (sum_of_rows choice rows)
    | Some v => forallb (fun ray => zdot (sum_of_rows choice rows) ray <=? 0) v
    end.

  (** The bound of a node. *)
  Definition is_excluded (st : state) (s h : nat) : bool :=
    existsb (fun e => Nat.eqb (fst e) s && Nat.eqb (snd e) h) (excluded st).

  Definition candidates (st : state) (s : nat) : list nat :=
    filter (fun j => negb (is_excluded st s j)) (seq 0 (size s)).

  Fixpoint cheapest_of (s : nat) (l : list nat) : option nat :=
    match l with
    | [] => None
    | j :: rest => match cheapest_of s rest with
                   | Some k => if price (hyp s k) <? price (hyp s j) then Some k else Some j
                   | None => Some j
                   end
    end.

  Definition cheapest (st : state) (s : nat) : option nat :=
    match lookup (chosen st) s with
    | Some h => Some h
    | None => cheapest_of s (candidates st s)
    end.

  Definition pointer (st : state) (s : nat) : nat := match cheapest st s with Some h => h | None => O end.

  (** The step to the next cost; if there is no other candidate, as much as could be needed. *)
  Definition base (st : state) : Z := total (fun s => price (hyp s (pointer st s))) part.

  Definition step (st : state) (s : nat) : Z :=
    match cheapest_of s (remove Nat.eq_dec (pointer st s) (candidates st s)) with
    | Some k => Z.max 0 (price (hyp s k) - price (hyp s (pointer st s)))
    | None => Z.max 0 (target - base st)
    end.

  Definition is_open (st : state) (s : nat) : bool :=
    match lookup (chosen st) s with Some _ => false | None => true end.

  Definition open_lists (st : state) (rows : list row) : list nat :=
    nodup Nat.eq_dec (filter (is_open st) (map (fun r : row => fst (snd r)) rows)).

  Definition has_no_candidate (st : state) (s : nat) : bool :=
    match cheapest st s with Some _ => false | None => true end.

  Definition bounded (st : state) (cores : list (list row)) : bool :=
    existsb (has_no_candidate st) part ||
    (forallb (is_core (cheapest st) (rays st)) cores &&
     (target <=? base st + charged (step st) (map (open_lists st) cores))).

  (** Splits. *)
  Definition choose (st : state) (s h : nat) : state :=
    {| rays := rays st; chosen := (s, h) :: chosen st; excluded := excluded st |}.

  Definition exclude (st : state) (s h : nat) : state :=
    {| rays := rays st; chosen := chosen st; excluded := (s, h) :: excluded st |}.

  Definition within (st : state) (v : list vector) : state :=
    {| rays := Some v; chosen := chosen st; excluded := excluded st |}.

  Definition mixed (a b : Z) (u v : vector) : vector := map (fun d => a * entry u d + b * entry v d) (seq 0 D).

  Fixpoint replace_at (k : nat) (a : vector) (v : list vector) : list vector :=
    match v, k with
    | [], _ => []
    | _ :: rest, O => a :: rest
    | b :: rest, S k' => b :: replace_at k' a rest
    end.

  Definition part_of (v : list vector) (p q : nat) (a b : Z) (replaced : nat) : list vector :=
    replace_at replaced (mixed a b (nth p v []) (nth q v [])) v.

  Definition is_beaten (st : state) (s h j : nat) : bool :=
    match rays st with
    | None => false
    | Some v => Nat.ltb s (length problem) && Nat.ltb j (size s) && negb (Nat.eqb j h) &&
                forallb (fun ray => zdot (features (hyp s h)) ray <=? zdot (features (hyp s j)) ray) v
    end.

  Definition unit (k : nat) (a : Z) : vector := map (fun d => if Nat.eqb d k then a else 0) (seq 0 D).

  (** Bit k of the number of an orthant says whether ray k is negative. *)
  Definition orthant (number : nat) : list vector :=
    map (fun k => unit k (if Nat.testbit number k then -1 else 1)) (seq 0 D).

  Definition corner_vector (k : nat) : vector :=
    if Nat.eqb k D then map (fun _ => -1) (seq 0 D) else unit k 1.

  Definition all_but (q : nat) : list vector :=
    map corner_vector (filter (fun k => negb (Nat.eqb k q)) (seq 0 (S D))).

  Fixpoint check (t : tree) (st : state) : bool :=
    let each := fix each (l : list tree) (i : nat) (into : nat -> state) : bool :=
      match l with
      | [] => true
      | c :: rest => check c (into i) && each rest (S i) into
      end in
    match t with
    | Core rows => is_core (lookup (chosen st)) (rays st) rows
    | Bounded cores => bounded st cores
    | Exclude s h rows rest =>
        is_core (lookup ((s, h) :: chosen st)) (rays st) rows && check rest (exclude st s h)
    | Beaten s h j rest => is_beaten st s h j && check rest (exclude st s h)
    | Branch s children =>
        Nat.ltb s (length problem) && Nat.eqb (length children) (size s) && each children O (choose st s)
    | Split p q a b first second =>
        match rays st with
        | None => false
        | Some v => Nat.ltb p (length v) && Nat.ltb q (length v) && negb (Nat.eqb p q) && (0 <? a) && (0 <? b) &&
                    check first (within st (part_of v p q a b p)) && check second (within st (part_of v p q a b q))
        end
    | Orthants children =>
        match rays st with
        | Some _ => false
        | None => Nat.eqb (length children) (2 ^ D) && each children O (fun i => within st (orthant i))
        end
    | Simplex children =>
        match rays st with
        | Some _ => false
        | None => Nat.eqb (length children) (S D) && each children O (fun i => within st (all_but i))
        end
    end.

  Definition start : state := {| rays := None; chosen := []; excluded := [] |}.

  (** ** What the integers mean *)

  Definition real (a : vector) : vec := fun d => IZR (entry a d).
  Definition feature (s j : nat) : vec := real (features (hyp s j)).
  Definition cost (s j : nat) : Z := price (hyp s j).
  Definition ray_of (v : list vector) (k : nat) : vec := real (nth k v []).

  Definition stands (st : state) (w : vec) (x : nat -> nat) : Prop :=
    decodes D size feature w part x /\
    (match rays st with None => True | Some v => in_cone D (length v) (ray_of v) w end) /\
    (forall s h, In (s, h) (chosen st) -> x s = h) /\
    (forall s h, In (s, h) (excluded st) -> x s <> h).

  Lemma dot_real : forall a b, dot D (real a) (real b) = IZR (zdot a b).
  Proof.
    intros a b. unfold dot, zdot. induction D as [|n IH]; [reflexivity|].
    rewrite seq_S, total_app. simpl. rewrite IH, plus_IZR. unfold real.
    replace (entry a n * entry b n + 0) with (entry a n * entry b n) by lia. now rewrite mult_IZR.
  Qed.

  Lemma entry_map : forall f d, (d < D)%nat -> entry (map f (seq 0 D)) d = f d.
  Proof.
    intros f d H. unfold entry. rewrite (nth_indep _ 0 (f O)) by (rewrite map_length, seq_length; auto).
    rewrite map_nth, seq_nth; auto.
  Qed.

  Lemma lookup_in : forall choices s h, lookup choices s = Some h -> In (s, h) choices.
  Proof.
    induction choices as [|[t k] rest IH]; intros s h E; simpl in *; [discriminate|].
    destruct (Nat.eqb_spec t s) as [->|]; [left; congruence | right; auto].
  Qed.
End Checker.

(** ** Examples *)

(** "Exclusive or" as lists of two in three features (the last is the intercept): one error at least. *)
Definition choice_of (good : vector) : list hypothesis :=
  [{| features := good; price := 0 |}; {| features := [0; 0; 0]%Z; price := 1 |}].

Definition exclusive_or : list (list hypothesis) :=
  map choice_of [[0; 0; -1]; [0; 1; 1]; [1; 0; 1]; [-1; -1; -1]]%Z.

(** A proof by one core: the rows of the four cheapest choices add up to 0. *)
Example one_error_by_a_core : check 3 exclusive_or 1 (Bounded [map (fun s => (1%Z, (s, 1%nat))) [0; 1; 2; 3]%nat]) start = true.
Proof. reflexivity. Qed.

(** A proof by selections: decide the first list, then the second, and so on; the same core closes the last node. *)
Example one_error_by_selections :
  check 3 exclusive_or 1
    (Branch 0 [Branch 1 [Branch 2 [Exclude 3 0 (map (fun s => (1%Z, (s, 1%nat))) [0; 1; 2; 3]%nat) (Bounded []); Bounded []];
                         Bounded []]; Bounded []]) start = true.
Proof. reflexivity. Qed.

(** A proof by cones, for two lists that prefer opposite directions of the plane. *)
Definition opposite : list (list hypothesis) :=
  [[{| features := [1; 0]%Z; price := 0 |}; {| features := [-1; 1]%Z; price := 2 |}; {| features := [-1; -1]%Z; price := 3 |}];
   [{| features := [-1; 0]%Z; price := 0 |}; {| features := [1; 0]%Z; price := 5 |}]].

Definition by_cones : tree :=
  Simplex [Beaten 0 0 1 (Bounded []);                                            (* without e1 *)
           Split 0 1 1 1 (Beaten 0 0 2 (Bounded [])) (Beaten 1 0 1 (Bounded []));  (* without e2 *)
           Beaten 1 0 1 (Bounded [])].                                           (* the first quadrant *)

Example two_by_cones : check 2 opposite 2 by_cones start = true.
Proof. reflexivity. Qed.

(** The checker refuses a bound that is too high, a core that does not vanish, and a wrong comparison. *)
Example not_three : check 2 opposite 3 by_cones start = false.
Proof. reflexivity. Qed.

Example not_a_core : check 3 exclusive_or 1 (Bounded [map (fun s => (1%Z, (s, 1%nat))) [0; 1; 2]%nat]) start = false.
Proof. reflexivity. Qed.

Example not_beaten :
  check 2 opposite 2 (Simplex [Beaten 0 1 0 (Bounded []); Beaten 0 0 2 (Bounded []); Beaten 1 0 1 (Bounded [])]) start = false.
Proof. reflexivity. Qed.
