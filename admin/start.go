package admin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Start describes a new run of a workflow that is known only by name. The directive of the workflow
// does not apply to the run, because it is part of the programs that link the workflow. It
// determines the queue, timeouts, retention, priority, limits, the fairness key, and the options by
// which starts share a run or a workflow ID. Set the necessary fields here, or start the workflow
// from a program that links it.
type Start struct {
	Workflow string `json:"workflow"` // stored name
	// Input is JSON in its stored form, an object with the parameters by name. It is empty for a
	// workflow without input. If the catalog contains a schema of the input, Start checks the input
	// against it. Otherwise the code of the run detects a mismatch when it begins.
	Input    Payload           `json:"input,omitempty"`
	ID       string            `json:"id,omitempty"`       // workflow ID; empty means that the run has none
	Policy   string            `json:"policy,omitempty"`   // one of [Policies], for an ID with an active run; empty means use
	Finished string            `json:"finished,omitempty"` // one of [FinishedPolicies], for an ID whose run has ended; empty means allow
	Queue    string            `json:"queue,omitempty"`    // empty means workflow.DefaultQueue
	DelayMs  int64             `json:"delayMs,omitempty"`  // time after which the run begins
	Hold     bool              `json:"hold,omitempty"`     // whether the run begins only after an operator releases it
	Tags     map[string]string `json:"tags,omitempty"`
	// Attributes are added to the run as by workflow.WithAttribute.
	Attributes map[string]string `json:"attributes,omitempty"`
	Reason     string            `json:"reason,omitempty"` // recorded in the journal; refused if the service has no journal
	// Key is an idempotency key: starts with the same key return the same run as long as that run
	// is retained. The key determines the workflow ID, so Key and ID must not both be set.
	Key string `json:"-"`
}

// Started is the result of a start. It identifies the new run or the existing run.
type Started struct {
	Run     string `json:"run"`
	Created bool   `json:"created"` // false if the run existed before
}

// policies and finishedPolicies map the names of the policies in JSON to their values.
var (
	policies = map[string]workflow.ActivePolicy{
		"use": workflow.UseActive, "fail": workflow.FailActive, "cancel": workflow.CancelActive, "queue": workflow.QueueActive, "latest": workflow.LatestActive,
	}
	finishedPolicies = map[string]workflow.FinishedPolicy{
		"allow": workflow.AllowFinished, "allowAfterFailure": workflow.AllowFinishedAfterFailure, "reject": workflow.RejectFinished,
	}
)

// Policies returns the names of the policies for a workflow ID with an active run.
func Policies() []string { return slices.Sorted(maps.Keys(policies)) }

// FinishedPolicies returns the names of the policies for a workflow ID whose run has ended.
func FinishedPolicies() []string { return slices.Sorted(maps.Keys(finishedPolicies)) }

// maxDelay is the maximum of Start.DelayMs that fits into a time.Duration.
const maxDelay = int64(1<<63-1) / int64(time.Millisecond)

// Reserved reports whether a workflow name belongs to the runtime. A workflow with such a name
// cannot be started by name.
func Reserved(workflow string) bool { return event.Reserved(workflow) }

// policy validates a start and returns its policies.
func (s *Start) policy() (workflow.IDPolicy, error) {
	var p workflow.IDPolicy
	active, isActive := policies[s.Policy]
	finished, isFinished := finishedPolicies[s.Finished]
	switch {
	case s.Workflow == "":
		return p, &InputError{What: "the name of the workflow is missing", Fix: "give its stored name"}
	case event.Reserved(s.Workflow):
		return p, &InputError{What: "names that begin with flowgen. are the runtime's own", Fix: "give the name of a workflow of yours"}
	case event.ReservedID(s.ID):
		return p, &InputError{What: "workflow ids that begin with schedule:, hook:, bulk- or idem: are the runtime's own", Fix: "give another id"}
	case isSealed(s.Input):
		return p, sealedInput("input")
	case len(s.Input) > 0 && !json.Valid(s.Input):
		return p, &InputError{What: "the input is not JSON", Fix: `give an object of the parameters by their names, such as {"order":"o-17"}`}
	case s.Policy != "" && !isActive:
		return p, checkOneOf("policy", s.Policy, Policies())
	case s.Finished != "" && !isFinished:
		return p, checkOneOf("policy for runs that have ended", s.Finished, FinishedPolicies())
	case s.ID == "" && (s.Policy != "" || s.Finished != ""):
		return p, &InputError{What: "a policy without a workflow id", Fix: "give the id that it is about, or leave the policy out"}
	case s.ID != "" && s.Key != "":
		return p, &InputError{What: "an idempotency key beside a workflow id", Fix: "leave the key out: with the policies use and reject the id makes starts one"}
	case s.DelayMs < 0 || s.DelayMs > maxDelay:
		return p, &InputError{What: fmt.Sprintf("a delay of %d ms", s.DelayMs), Fix: "give the delay of the start, or nothing"}
	case s.DelayMs > 0 && s.Hold:
		return p, &InputError{What: "a delay of a run on hold", Fix: "leave out one of them: a run on hold begins when it is released"}
	}
	if err := checkReason("a start", s.Reason, false); err != nil {
		return p, err
	}
	return workflow.IDPolicy{Active: active, Finished: finished}, store.CheckName("workflow id", s.ID)
}

// untyped returns a definition of a workflow whose types are unknown. Its input must be a [Payload]
// or workflow.None.
func untyped(name string) workflow.Definition[any, Payload] {
	return shim.NewWorkflow[any, Payload](name, "", shim.WorkflowPolicy{})
}

// input returns the input of the run, or workflow.None if there is none.
func (s *Start) input() any {
	if len(s.Input) == 0 {
		return workflow.None{}
	}
	return s.Input
}

// Start creates a run. When it returns nil, the run is durable.
func (s *Service) Start(ctx context.Context, in Start) (Started, error) {
	e := s.entry(JournalEntry{Action: "start", Detail: in.Workflow, Reason: in.Reason, Key: in.Key})
	if in.ID != "" {
		e.Target = byID + in.ID
	}
	return recorded(ctx, s, &e, func(ctx context.Context) (Started, error) {
		in.Reason = left(&e, in.Reason, false)
		return s.start(ctx, in)
	}, func(got Started, e *JournalEntry) {
		if e.Run = got.Run; got.Created {
			e.New = got.Run
		}
	})
}

// start is like [Service.Start], but does not write the journal.
func (s *Service) start(ctx context.Context, in Start) (Started, error) {
	if err := s.who.Need(RoleOperator, "to start runs"); err != nil {
		return Started{}, err
	}
	if in.Workflow == BulkRuns.Name() { // the input of a bulk action contains the rights with which it acts, so it must come from StartBulk
		return Started{}, &NotAllowedError{What: "bulk actions are not started as runs", Fix: "POST bulk, or use flowctl with a filter"}
	}
	if in.Key != "" && !s.local {
		in.Key = s.who.Name + "\x00" + in.Key // the name makes the key specific to the principal, so that it cannot return the run of another principal
	}
	if s.who.Owner == "" {
		return s.create(ctx, in)
	}
	if other, ok := in.Tags[ownerTag]; ok && other != s.who.Owner {
		return Started{}, &NotAllowedError{What: "the start names another owner", Fix: "remove the tag owner: the token sets it"}
	}
	if in.Policy != "" && in.Policy != "use" && in.Policy != "fail" {
		return Started{}, &NotAllowedError{What: "the policy " + in.Policy + " could end the run of another owner", Fix: "use the policy use or fail"}
	}
	if in.Tags = maps.Clone(in.Tags); in.Tags == nil {
		in.Tags = map[string]string{}
	}
	in.Tags[ownerTag] = s.who.Owner
	got, err := s.create(ctx, in)
	if err == nil && !got.Created {
		_, err = s.visible(ctx, got.Run)
	}
	if p := ProblemOf(err); err != nil && (p.Code == CodeRefused || p.Code == CodeNotFound) { // the error could name the run of another owner
		err = NewProblem(CodeRefused, "start "+in.Workflow+": the workflow id was used before", "use another id")
	}
	if err != nil {
		return Started{}, err
	}
	return got, nil
}

// create is like start, but does not check the rights of the principal.
func (s *Service) create(ctx context.Context, in Start) (Started, error) {
	policy, err := in.policy()
	if err != nil {
		return Started{}, err
	}
	if err := s.fits(ctx, in.Workflow, in.Input); err != nil {
		return Started{}, err
	}
	id := in.ID
	if in.Key != "" {
		sum := sha256.Sum256([]byte(in.Key))
		id, policy = event.KeyRunID+hex.EncodeToString(sum[:]), workflow.IDPolicy{Finished: workflow.RejectFinished}
	}
	var opts []workflow.StartOption
	if id != "" {
		opts = append(opts, workflow.WithID(id), workflow.WithIDPolicy(policy))
	}
	if in.Queue != "" {
		opts = append(opts, workflow.WithQueue(in.Queue))
	}
	if len(in.Tags) > 0 {
		opts = append(opts, workflow.WithTags(in.Tags))
	}
	if in.DelayMs > 0 {
		opts = append(opts, workflow.WithDelay(time.Duration(in.DelayMs)*time.Millisecond))
	}
	if in.Hold {
		opts = append(opts, workflow.WithHold())
	}
	for key, value := range in.Attributes {
		ctx = workflow.WithAttribute(ctx, key, value)
	}
	run, err := untyped(in.Workflow).Start(ctx, s.client, in.input(), opts...)
	if in.Key == "" {
		if err != nil {
			return Started{}, err
		}
		return Started{Run: string(run.ID()), Created: run.Created()}, nil
	}
	finished, isFinished := errors.AsType[*workflow.FinishedRunError](err)
	switch {
	case isFinished:
		return s.again(ctx, string(finished.Run), in)
	case errors.Is(err, workflow.ErrWrongWorkflow):
		return Started{}, reused(in.Workflow)
	case err != nil:
		return Started{}, err
	case !run.Created():
		return s.again(ctx, string(run.ID()), in)
	}
	return Started{Run: string(run.ID()), Created: true}, nil
}

// again handles a start whose key was used before. It returns the existing run if the workflow and
// the input are equal. The run may be a continuation, whose input differs from the input of the
// start. Therefore again compares the input of the first run of the chain.
func (s *Service) again(ctx context.Context, run string, in Start) (Started, error) {
	loaded, err := s.client.Store().Load(ctx, []store.Load{{Run: event.RunID(run), Limit: -1}})
	if err == nil {
		err = loaded[0].Err
	}
	if err != nil {
		return Started{}, fmt.Errorf("start %s: look at run %s, which its key has made: %w", in.Workflow, run, err)
	}
	r, err := s.run(ctx, string(loaded[0].Record.Chain))
	if err != nil {
		return Started{}, err
	}
	var asked []byte
	if len(in.Input) > 0 {
		if asked, err = json.Marshal(in.Input); err != nil { // converts the input to its stored form
			return Started{}, err
		}
	}
	if r.Workflow != in.Workflow || !bytes.Equal(asked, r.Input) {
		return Started{}, reused(in.Workflow)
	}
	return Started{Run: run}, nil
}

// reused returns the error for a key that was used with a different request.
func reused(name string) error {
	p := NewProblem(CodeInput, "start "+name+": its idempotency key was used before, for another workflow or input", "use a new key for each request, and the same one to repeat a request")
	p.Status = http.StatusUnprocessableEntity
	return p
}

// Wait waits until a run and its continuations have ended, but at most for the given time, and
// returns the run.
func (s *Service) Wait(ctx context.Context, ref string, most time.Duration) (Run, error) {
	ref, err := s.own(ctx, ref)
	if err != nil {
		return Run{}, err
	}
	r, err := s.wait(ctx, ref, most)
	s.show(&r)
	return r, err
}

// wait is like [Service.Wait], but does not check the rights of the principal.
func (s *Service) wait(ctx context.Context, ref string, most time.Duration) (Run, error) {
	_, info, err := s.find(ctx, ref)
	if err != nil {
		return Run{}, err
	}
	if most > 0 {
		limited, cancel := context.WithTimeout(ctx, most)
		defer cancel()
		_, err := untyped(info.Workflow).Get(s.client, info.ID).Result(limited)
		over := limited.Err() != nil && ctx.Err() == nil
		ended := errors.As(err, new(*workflow.RunError)) || errors.As(err, new(*workflow.PayloadError))
		if err != nil && !over && !ended {
			return Run{}, err
		}
	}
	var chain event.Loop
	for id := string(info.ID); ; {
		r, err := s.run(ctx, id)
		if err != nil || r.Next == "" || chain.Closed(event.RunID(id)) {
			return r, err
		}
		id = r.Next
	}
}
