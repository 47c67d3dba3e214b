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

// Start asks for a new run of a workflow that is known by name only. What the directive of the workflow
// says stands in the code of programs that link it, and does not hold: its queue, time limits, retention and
// priority, limits and fair keys, and what lets starts share a run or a workflow id. Give here what matters of it, or
// let such workflows be started by a program that links them.
type Start struct {
	Workflow string `json:"workflow"` // stored name
	// Input is JSON as it is stored: an object of the parameters by their names. Leave it out for a workflow that
	// takes none. What the catalogue has a schema of is checked; whether any other one fits is seen when the code begins.
	Input    Payload           `json:"input,omitempty"`
	ID       string            `json:"id,omitempty"`       // workflow id; empty: none
	Policy   string            `json:"policy,omitempty"`   // if the id has an active run: one of [Policies]; empty: use
	Finished string            `json:"finished,omitempty"` // if it has one that has ended: one of [FinishedPolicies]; empty: allow
	Queue    string            `json:"queue,omitempty"`    // empty: workflow.DefaultQueue
	DelayMs  int64             `json:"delayMs,omitempty"`  // it begins that much later
	Hold     bool              `json:"hold,omitempty"`     // it begins once it is released
	Tags     map[string]string `json:"tags,omitempty"`
	Reason   string            `json:"reason,omitempty"` // kept in the journal; refused where there is no journal
	// Key makes starts with the same key one, as long as the run is kept: it gives the run its workflow id. A start with
	// an ID takes none.
	Key string `json:"-"`
}

// Started says which run there is now.
type Started struct {
	Run     string `json:"run"`
	Created bool   `json:"created"` // false: it was there before
}

// policies and finishedPolicies are by the names that they have in JSON.
var (
	policies = map[string]workflow.ActivePolicy{
		"use": workflow.UseActive, "fail": workflow.FailActive, "cancel": workflow.CancelActive, "queue": workflow.QueueActive, "latest": workflow.LatestActive,
	}
	finishedPolicies = map[string]workflow.FinishedPolicy{
		"allow": workflow.AllowFinished, "allowAfterFailure": workflow.AllowFinishedAfterFailure, "reject": workflow.RejectFinished,
	}
)

// Policies returns what a start can say about an active run of its workflow id.
func Policies() []string { return slices.Sorted(maps.Keys(policies)) }

// FinishedPolicies returns what a start can say about a run of its workflow id that has ended.
func FinishedPolicies() []string { return slices.Sorted(maps.Keys(finishedPolicies)) }

// maxDelay bounds Start.DelayMs: more is no Duration.
const maxDelay = int64(1<<63-1) / int64(time.Millisecond)

// Reserved reports whether a workflow name is one of the runtime's own, which nobody starts by its name.
func Reserved(workflow string) bool { return event.Reserved(workflow) }

// policy checks a start, and returns its policies.
func (s *Start) policy() (workflow.IDPolicy, error) {
	var p workflow.IDPolicy
	active, isActive := policies[s.Policy]
	finished, isFinished := finishedPolicies[s.Finished]
	switch {
	case s.Workflow == "":
		return p, &InputError{What: "it is not said which workflow", Fix: "give its stored name"}
	case event.Reserved(s.Workflow):
		return p, &InputError{What: "names that begin with flowgen. are the runtime's own", Fix: "give the name of a workflow of yours"}
	case event.ReservedID(s.ID):
		return p, &InputError{What: "workflow ids that begin with schedule:, hook:, bulk- or idem: are the runtime's own", Fix: "give another id"}
	case len(s.Input) > 0 && !json.Valid(s.Input):
		return p, &InputError{What: "the input is no JSON", Fix: `give an object of the parameters by their names, such as {"order":"o-17"}`}
	case s.Policy != "" && !isActive:
		return p, checkOneOf("policy", s.Policy, Policies())
	case s.Finished != "" && !isFinished:
		return p, checkOneOf("policy for runs that have ended", s.Finished, FinishedPolicies())
	case s.ID == "" && (s.Policy != "" || s.Finished != ""):
		return p, &InputError{What: "a policy without a workflow id", Fix: "give the id that it is about, or leave the policy out"}
	case s.ID != "" && s.Key != "":
		return p, &InputError{What: "an idempotency key beside a workflow id", Fix: "leave the key out: with the policies use and reject the id makes starts one"}
	case s.DelayMs < 0 || s.DelayMs > maxDelay:
		return p, &InputError{What: fmt.Sprintf("a delay of %d ms", s.DelayMs), Fix: "say how much later the run begins, or nothing"}
	case s.DelayMs > 0 && s.Hold:
		return p, &InputError{What: "a delay of a run on hold", Fix: "leave out one of them: a run on hold begins when it is released"}
	}
	if err := checkReason("a start", s.Reason, false); err != nil {
		return p, err
	}
	return workflow.IDPolicy{Active: active, Finished: finished}, store.CheckName("workflow id", s.ID)
}

// untyped is a workflow of which only the name is known. Its inputs are a [Payload], or workflow.None.
func untyped(name string) workflow.Definition[any, Payload] {
	return shim.NewWorkflow[any, Payload](name, "", shim.WorkflowPolicy{})
}

// input returns that of the run.
func (s *Start) input() any {
	if len(s.Input) == 0 {
		return workflow.None{}
	}
	return s.Input
}

// Start is part of Service.
func (d *Direct) Start(ctx context.Context, s Start) (Started, error) {
	policy, err := s.policy()
	if err != nil {
		return Started{}, err
	}
	if err := d.fits(ctx, s.Workflow, s.Input); err != nil {
		return Started{}, err
	}
	id := s.ID
	if s.Key != "" {
		sum := sha256.Sum256([]byte(s.Key))
		id, policy = event.KeyRunID+hex.EncodeToString(sum[:]), workflow.IDPolicy{Finished: workflow.RejectFinished}
	}
	var opts []workflow.StartOption
	if id != "" {
		opts = append(opts, workflow.WithID(id), workflow.WithIDPolicy(policy))
	}
	if s.Queue != "" {
		opts = append(opts, workflow.WithQueue(s.Queue))
	}
	if len(s.Tags) > 0 {
		opts = append(opts, workflow.WithTags(s.Tags))
	}
	if s.DelayMs > 0 {
		opts = append(opts, workflow.WithDelay(time.Duration(s.DelayMs)*time.Millisecond))
	}
	if s.Hold {
		opts = append(opts, workflow.WithHold())
	}
	run, err := untyped(s.Workflow).Start(ctx, d.client, s.input(), opts...)
	if s.Key == "" {
		if err != nil {
			return Started{}, err
		}
		return Started{Run: string(run.ID()), Created: run.Created()}, nil
	}
	finished, isFinished := errors.AsType[*workflow.FinishedRunError](err)
	switch {
	case isFinished:
		return d.again(ctx, string(finished.Run), s)
	case errors.Is(err, workflow.ErrWrongWorkflow):
		return Started{}, reused(s.Workflow)
	case err != nil:
		return Started{}, err
	case !run.Created():
		return d.again(ctx, string(run.ID()), s)
	}
	return Started{Run: string(run.ID()), Created: true}, nil
}

// again answers a start whose key a run has had before. A run that continues others has the input of the last continuation: the
// start has given that of the first run of the chain.
func (d *Direct) again(ctx context.Context, run string, s Start) (Started, error) {
	loaded, err := d.client.Store().Load(ctx, []store.Load{{Run: event.RunID(run), Limit: -1}})
	if err == nil {
		err = loaded[0].Err
	}
	if err != nil {
		return Started{}, fmt.Errorf("start %s: look at run %s, which its key has made: %w", s.Workflow, run, err)
	}
	r, err := d.Run(ctx, string(loaded[0].Record.Chain))
	if err != nil {
		return Started{}, err
	}
	var asked []byte
	if len(s.Input) > 0 {
		if asked, err = json.Marshal(s.Input); err != nil { // as it was stored
			return Started{}, err
		}
	}
	if r.Workflow != s.Workflow || !bytes.Equal(asked, r.Input) {
		return Started{}, reused(s.Workflow)
	}
	return Started{Run: run}, nil
}

// reused refuses a key that was used for something else.
func reused(name string) error {
	p := NewProblem(CodeInput, "start "+name+": its idempotency key was used before, for another workflow or input", "use a new key for each request, and the same one to repeat a request")
	p.Status = http.StatusUnprocessableEntity
	return p
}

// Wait is part of Service.
func (d *Direct) Wait(ctx context.Context, ref string, most time.Duration) (Run, error) {
	_, info, err := d.find(ctx, ref)
	if err != nil {
		return Run{}, err
	}
	if most > 0 {
		limited, cancel := context.WithTimeout(ctx, most)
		defer cancel()
		_, err := untyped(info.Workflow).Get(d.client, info.ID).Result(limited)
		over := limited.Err() != nil && ctx.Err() == nil
		ended := errors.As(err, new(*workflow.RunError)) || errors.As(err, new(*workflow.PayloadError))
		if err != nil && !over && !ended {
			return Run{}, err
		}
	}
	var chain event.Loop
	for id := string(info.ID); ; {
		r, err := d.Run(ctx, id)
		if err != nil || r.Next == "" || chain.Closed(event.RunID(id)) {
			return r, err
		}
		id = r.Next
	}
}
