package event

import "fmt"

// Type is the type of an event. Its text form is the stable name of the event, for example
// "step_completed". Its number is part of the wire format and never changes.
type Type uint8

// Terminate is the name of a request that ends a run without executing its code.
const Terminate = "terminate"

// The event types. Each comment lists the fields of [Event] that the type has in addition to Seq,
// Type and Time. RunCreated, and events that arrive from outside of the run, also have By if the
// requester is known. Messages, payloads and questions, and the outcome of a step that was completed
// from outside, have Attributes if the sender has set some.
const (
	// RunCreated is the first event of every log. Fields: Spec, Payload (the input). If the run is
	// a rerun, it also has Reason and Item (the idempotency key of the request).
	RunCreated Type = 1
	// RunStarted records that a worker has executed the code of the workflow for the first time.
	// Fields: By, Build, and Payload. Payload is the number of earlier events that the log length
	// reported to the code does not include. It is empty if that number is 0.
	RunStarted Type = 2
	// RunCompleted ends a run with its result. Fields: Payload, Unread.
	RunCompleted Type = 3
	// RunFailed ends a run with an error. Fields: Failure, Unread. If the policy of the workflow
	// reruns the run, it also has Attempt (number of the rerun), Reason (of the rerun) and Due
	// (when the code of the rerun continues). If rules of the worker match, it has Meta (the runs
	// that deliver alerts).
	RunFailed Type = 4
	// RunCanceled ends a run that was asked to cancel. Fields: Failure, Unread, and Item if the
	// request was to [Terminate] the run.
	RunCanceled Type = 5
	// RunContinued ends a run whose work continues in a new run. Fields: Next, Payload (input of
	// the new run), Unread, and Spec if the new run has another Queue.
	RunContinued Type = 6
	// CancelRequested is a request to cancel the run. Fields: Reason, Item. A worker adds this
	// event with a Failure if the log is too long or the run is deadlocked. The run then fails with
	// that Failure. If an item of this type has the Name [Terminate], the code does not receive it:
	// the worker or client that processes the item ends the run with RunCanceled.
	CancelRequested Type = 7
	// InputReceived is the input of one of the starts that share the run, see [Collect]. It
	// precedes the first claim of the run. Fields: Item, Payload.
	InputReceived Type = 8

	// StepCreated records that the code has called a step. Fields: Name, Key, Payload (the
	// arguments).
	StepCreated Type = 10
	// StepStarted records that an attempt may begin. Fields: Attempt, By. If a StepStarted
	// follows another one without an outcome in between, the previous attempt was interrupted.
	//
	// StepStarted, StepRetrying, StepCompleted and StepFailed end the previous attempt. If that
	// attempt has opened a hook, they close the hook and have its Token. If a request with that
	// token has ended the attempt, they also have the Item of the request and the Key that
	// identifies it.
	StepStarted Type = 11
	// StepRetrying records a failed attempt that another attempt will follow. Fields: Attempt,
	// Failure, Due. If the code of the Failure is "stopped", the attempt does not count, because
	// its worker was shut down. Without an Attempt, the event resets the count, because another run
	// has made the previous attempts.
	StepRetrying Type = 12
	// StepCompleted ends a step with its result. Fields: Attempt, Payload.
	StepCompleted Type = 13
	// StepFailed ends a step permanently. Fields: Attempt, Failure, and Outcome if it is
	// OutcomeUnsure.
	StepFailed Type = 14
	// StepHookCreated records that the code of an attempt has opened a hook. The attempt may be
	// completed from outside through the hook. Fields: Attempt, Name (of the hook), Token, Payload
	// (shape of accepted payloads; empty: any), Meta, Due (timeout of the attempt).
	StepHookCreated Type = 15
	// StepPending records that the code of an attempt has returned without an outcome. The holder
	// of the hook's token provides the outcome. Fields: Attempt, Due (timeout of the attempt),
	// Payload (streams to close on completion, as JSON; empty: none).
	StepPending Type = 16

	// WaitCreated records that a branch of the code waits. Fields: Key, Wait, Name (the topic or
	// hook), Due.
	WaitCreated Type = 20
	// WaitCompleted ends a wait. Fields: Outcome.
	WaitCompleted Type = 21

	// HookCreated opens a hook. Fields: Name, Key, Token, Payload (shape of accepted payloads;
	// empty: any), Meta.
	HookCreated Type = 30
	// HookReceived delivers one payload to a hook. Fields: Item, Payload. An item for the hook of a
	// step also has a Key, which identifies it. If that item has a Failure, its Payload describes
	// how the retry policy changes.
	HookReceived Type = 31
	// HookDisposed closes a hook. Fields: Token.
	HookDisposed Type = 32
	// HookConflict records that another run holds the token. Fields: Next (that run), Token.
	HookConflict Type = 33
	// HookMissed records an accepted payload that the code cannot receive, because the hook was
	// closed on arrival or the payload cannot be decoded. Fields: Item, Token, Failure (why the
	// payload cannot be decoded).
	HookMissed Type = 34
	// HookAnswered is the response to a payload that a hook has received. The sender of the payload
	// may wait for the response. Fields: Name (of the hook), Key (the Item of the payload), Token,
	// Payload (the response).
	HookAnswered Type = 35

	// MessageReceived moves a message from the inbox into the log. Fields: Name (the topic), Item,
	// Payload.
	MessageReceived Type = 40
	// ValueRecorded keeps a value that the code computed once. Fields: Key, and Payload or Failure.
	ValueRecorded Type = 41
	// MessageSent sends a message to another run. Fields: Name (the topic), Key, Next (that run),
	// Item, Payload.
	MessageSent Type = 42
	// SendCompleted records that the other run has accepted the message. Fields: Next, Item.
	SendCompleted Type = 43
	// SendFailed records that the other run has refused the message. Fields: Next, Item, Failure.
	SendFailed Type = 44

	// ChildCreated starts another run. Fields: Name (its workflow), Key, Next (its ID), Spec,
	// Payload (its input), Close, Ack, Active, Finished. If the Spec has no Parent, the run is not
	// a child. In that case, ChildCompleted without a Payload records that the run exists.
	ChildCreated Type = 50
	// ChildStarted records that the child exists. It is recorded only if ChildCreated has Ack.
	// Fields: Next.
	ChildStarted Type = 51
	// ChildCancelRequested asks the child to cancel. Fields: Next, Reason.
	ChildCancelRequested Type = 52
	// ChildCompleted is the result of the child. Fields: Next (the last run of its chain), Payload.
	ChildCompleted Type = 53
	// ChildFailed is the error of the child, or the reason why it could not be started. Fields:
	// Next, Failure, and Outcome if it is OutcomeUnsure.
	ChildFailed Type = 54
	// ChildCanceled records that the child was canceled. Fields: Next, Failure, and Outcome if it
	// is OutcomeUnsure.
	ChildCanceled Type = 55

	// ValueSet publishes a value under a name. Fields: Name, Key, Payload.
	ValueSet Type = 60
	// ValuesKept publishes again the values set by the events that a rerun has copied from an older
	// run.
	ValuesKept Type = 61

	// StreamWritten records that chunks were written to a stream, by the code of the run or by a
	// step that another run executes for it. The chunks are not in the log, because the Payload is
	// removed when the event is committed. Fields: Name, Key. An event of a step has Name, Key (of
	// the step), Attempt and Item.
	StreamWritten Type = 64
	// StreamClosed records that a stream was closed. Fields: Name, Key. If a step has closed the
	// stream: Name, Key (of the step), Attempt, and possibly Item. If an earlier run of the chain
	// has closed it: only Name.
	StreamClosed Type = 65

	// AskReceived is a question that was recorded before it was validated. Fields: Name, Item,
	// Payload.
	AskReceived Type = 70
	// AskAccepted is a question that was validated before it was recorded. Fields: Name, Item,
	// Payload.
	AskAccepted Type = 71
	// AskAnswered is the answer to a question. Fields: Key (the Item of the question), and Payload
	// or Failure.
	AskAnswered Type = 72
	// AskRefused records that a question was not accepted. Fields: Key (the Item of the question),
	// Failure.
	AskRefused Type = 73

	// RunPaused suspends the code of the run. Fields: Item, Reason. The RunPaused that ends the
	// events copied from an older run has only Next, which is this run.
	RunPaused Type = 80
	// RunResumed lets the code continue, and ends stepping. Fields: Item, Reason. The RunResumed
	// that begins a rerun's own work has only Next, which is this run.
	RunResumed Type = 81
	// RunReleased lets a held run begin. Fields: Item, Reason.
	RunReleased Type = 82
	// RunStepped lets the code of a run in debug mode execute one durable operation. Fields: Item,
	// Reason.
	RunStepped Type = 83
	// VersionRecorded records which version of a change the run uses. Fields: Name (the change),
	// Payload (the version).
	VersionRecorded Type = 84
	// ResourceWait records a wait for limits. Fields: Uses (all permits needed at once), From. If a
	// step has waited, it also has Key (of the step) and Next: the run that executes the step or
	// takes permits for this run.
	ResourceWait Type = 85
	// RunDelayed ends the events that a rerun has copied from an older run, and suspends the code.
	// A worker adds a RunResumed at the time of Due. Fields: Next, Due.
	RunDelayed Type = 86
)

// Entity is a kind of object to which events refer.
type Entity uint8

// The entities. EntityNone is the entity of facts without a life cycle, for example of a received
// message.
const (
	EntityNone Entity = iota
	EntityRun
	EntityStep
	EntityWait
	EntityHook
	EntityChild
	EntitySend
	EntityAsk
)

// External reports whether events of the type are certain to come from outside of the code, with data
// for it. A log can be replayed in portions that end before such events.
func (t Type) External() bool {
	switch t {
	case StepCompleted, ChildCompleted, HookReceived, MessageReceived:
		return true
	}
	return false
}

// String returns the entity's name, for example "step".
func (e Entity) String() string {
	switch e {
	case EntityRun:
		return "run"
	case EntityStep:
		return "step"
	case EntityWait:
		return "wait"
	case EntityHook:
		return "hook"
	case EntityChild:
		return "child"
	case EntitySend:
		return "send"
	case EntityAsk:
		return "ask"
	}
	return "event"
}

type typeInfo struct {
	name    string
	entity  Entity
	creates bool
}

var types = map[Type]typeInfo{
	RunCreated:      {"run_created", EntityRun, true},
	RunStarted:      {"run_started", EntityRun, false},
	RunCompleted:    {"run_completed", EntityRun, false},
	RunFailed:       {"run_failed", EntityRun, false},
	RunCanceled:     {"run_cancelled", EntityRun, false},
	RunContinued:    {"run_continued", EntityRun, false},
	CancelRequested: {"cancel_requested", EntityNone, false},
	InputReceived:   {"input_received", EntityNone, false},
	StepCreated:     {"step_created", EntityStep, true},
	StepStarted:     {"step_started", EntityStep, false},
	StepRetrying:    {"step_retrying", EntityStep, false},
	StepCompleted:   {"step_completed", EntityStep, false},
	StepFailed:      {"step_failed", EntityStep, false},
	StepHookCreated: {"step_hook_created", EntityStep, false},
	StepPending:     {"step_pending", EntityStep, false},
	WaitCreated:     {"wait_created", EntityWait, true},
	WaitCompleted:   {"wait_completed", EntityWait, false},
	HookCreated:     {"hook_created", EntityHook, true},
	HookReceived:    {"hook_received", EntityHook, false},
	HookDisposed:    {"hook_disposed", EntityHook, false},
	HookConflict:    {"hook_conflict", EntityHook, false},
	HookMissed:      {"hook_missed", EntityNone, false},
	HookAnswered:    {"hook_answered", EntityNone, false},
	MessageReceived: {"message_received", EntityNone, false},
	ValueRecorded:   {"value_recorded", EntityNone, false},

	MessageSent:   {"message_sent", EntitySend, true},
	SendCompleted: {"send_completed", EntitySend, false},
	SendFailed:    {"send_failed", EntitySend, false},

	ChildCreated:         {"child_created", EntityChild, true},
	ChildStarted:         {"child_started", EntityChild, false},
	ChildCancelRequested: {"child_cancel_requested", EntityChild, false},
	ChildCompleted:       {"child_completed", EntityChild, false},
	ChildFailed:          {"child_failed", EntityChild, false},
	ChildCanceled:        {"child_cancelled", EntityChild, false},

	ValueSet:   {"value_set", EntityNone, false},
	ValuesKept: {"values_kept", EntityNone, false},

	StreamWritten: {"stream_written", EntityNone, false},
	StreamClosed:  {"stream_closed", EntityNone, false},

	AskReceived: {"ask_received", EntityAsk, true},
	AskAccepted: {"ask_accepted", EntityAsk, true},
	AskAnswered: {"ask_answered", EntityAsk, false},
	AskRefused:  {"ask_refused", EntityAsk, false},

	RunPaused:       {"run_paused", EntityNone, false},
	RunResumed:      {"run_resumed", EntityNone, false},
	RunReleased:     {"run_released", EntityNone, false},
	RunStepped:      {"run_stepped", EntityNone, false},
	VersionRecorded: {"version_recorded", EntityNone, false},
	ResourceWait:    {"resource_wait", EntityNone, false},
	RunDelayed:      {"run_delayed", EntityNone, false},
}

// Types returns every event type of this release, in the order of their numbers.
func Types() []Type {
	all := make([]Type, 0, len(types))
	for t := range Type(255) {
		if t.Known() {
			all = append(all, t)
		}
	}
	return all
}

// table contains the row of each type, indexed by its number, because the decoder and the state
// read a row for each event.
var table = func() (t [256]typeInfo) {
	for typ, info := range types {
		t[typ] = info
	}
	return t
}()

// Known reports whether this release has the type.
func (t Type) Known() bool { return table[t].name != "" }

// Entity returns the kind of entity to which an event of this type refers.
func (t Type) Entity() Entity { return table[t].entity }

// Creates reports whether an event of this type creates its entity.
func (t Type) Creates() bool { return table[t].creates }

// Terminal reports whether an event of this type ends a run.
func (t Type) Terminal() bool {
	return t == RunCompleted || t == RunFailed || t == RunCanceled || t == RunContinued
}

// String returns the stable name of the type, for example "step_completed".
func (t Type) String() string {
	if info := table[t]; info.name != "" {
		return info.name
	}
	return fmt.Sprintf("type(%d)", uint8(t))
}

// ParseType returns the type with the given name.
func ParseType(name string) (Type, error) {
	for t, info := range types {
		if info.name == name {
			return t, nil
		}
	}
	return 0, fmt.Errorf("parse event type %q: no such type", name)
}

// MarshalText returns the stable name of the type.
func (t Type) MarshalText() ([]byte, error) {
	if !t.Known() {
		return nil, fmt.Errorf("marshal event type %d: no such type", uint8(t))
	}
	return []byte(t.String()), nil
}

// UnmarshalText parses a name written by [Type.MarshalText].
func (t *Type) UnmarshalText(text []byte) error {
	parsed, err := ParseType(string(text))
	if err != nil {
		return err
	}
	*t = parsed
	return nil
}
