package event

import "fmt"

// Type says what happened. Its text form is the stable name of the event, for
// example "step_completed"; its number is part of the wire format and is never
// used again for something else.
type Type uint8

// Terminate is the name of a request that ends a run without its code.
const Terminate = "terminate"

// The event types. Comments name the fields of [Event] that each carries
// beside Seq, Type and Time. RunCreated, and what somebody has put into the run from outside, have
// By, too, if it is known on whose behalf.
const (
	// RunCreated is the first event of every log. Spec, Payload (the input). That of a run that was retried as this one: Reason, and
	// Item, which is the idempotency key of the request.
	RunCreated Type = 1
	// RunStarted says that a worker ran the workflow's code for the first time. By, Build. Payload, if it
	// is there, is how many of the events before it the code does not count for the length of the log.
	RunStarted Type = 2
	// RunCompleted ends a run with its result. Payload, Unread.
	RunCompleted Type = 3
	// RunFailed ends a run with an error. Failure, Unread. If the policy of its workflow has it tried again: Attempt (which rerun that
	// is), Reason (that of the rerun) and Due (when the code of the rerun goes on).
	RunFailed Type = 4
	// RunCanceled ends a run because it was asked to end. Failure, Unread; Item if that was to Terminate it.
	RunCanceled Type = 5
	// RunContinued ends a run whose work goes on in a new one. Next, Payload (the
	// input of that), Unread; Spec if that has another Queue.
	RunContinued Type = 6
	// CancelRequested is somebody's wish that the run ends. Reason, Item. With Failure it is a
	// worker's: the log has become too long, or the run is deadlocked, and fails with that. An item
	// with the Name [Terminate] is no request to the code: who takes it ends the run with RunCanceled.
	CancelRequested Type = 7
	// InputReceived is the input of one of the starts that share the run, from before it was
	// claimed for the first time: see [Gather]. Item, Payload.
	InputReceived Type = 8

	// StepCreated records that the code asked for a step. Name, Key, Payload (the arguments).
	StepCreated Type = 10
	// StepStarted records that an attempt may begin. Attempt, By, Build. A second one
	// without an outcome in between means that the attempt before was interrupted.
	//
	// It, StepRetrying, StepCompleted and StepFailed end the attempt before them; if that has
	// opened a hook they close it, and carry its Token. If whoever had the token has ended the
	// attempt, they carry what he sent: Item, and Key, by which it is known again.
	StepStarted Type = 11
	// StepRetrying records a failed attempt that will be followed by another. Attempt, Failure, Due.
	// Without an Attempt it says that those so far do not count: another run has made them.
	// With the code "stopped" it says that this one does not: its worker was asked to stop.
	StepRetrying Type = 12
	// StepCompleted ends a step with its result. Attempt, Payload.
	StepCompleted Type = 13
	// StepFailed ends a step for good. Attempt, Failure; Outcome if that is OutcomeUnsure.
	StepFailed Type = 14
	// StepHookCreated says that the code of an attempt has opened a hook, by which the attempt may
	// be finished from outside. Attempt, Name (of the hook), Token, Payload (the shape of what
	// it takes; empty: anything), Meta, Due (when the attempt times out).
	StepHookCreated Type = 15
	// StepPending says that the code of an attempt has returned, and leaves the outcome to whoever
	// has the token of its hook. Attempt, Due (when the attempt times out), Payload (the
	// streams that are closed if it completes, as JSON; empty: none).
	StepPending Type = 16

	// WaitCreated records that a branch waits. Key, Wait, Name (the topic or hook), Due.
	WaitCreated Type = 20
	// WaitCompleted ends a wait. Outcome.
	WaitCompleted Type = 21

	// HookCreated opens a hook. Name, Key, Token, Payload (the shape of what it takes; empty:
	// anything), Meta.
	HookCreated Type = 30
	// HookReceived delivers one payload to a hook. Item, Payload. As an item for a hook of a step it
	// has a Key, by which it is known again, and perhaps a Failure: then Payload says how that changes the retry policy.
	HookReceived Type = 31
	// HookDisposed closes a hook. Token.
	HookDisposed Type = 32
	// HookConflict says that another run holds the token. Next (that run), Token.
	HookConflict Type = 33
	// HookMissed keeps that a payload was accepted for a hook that was closed when it
	// came, or whose code cannot read it: nobody takes it. Item, Token, Failure (why it
	// cannot be read).
	HookMissed Type = 34
	// HookAnswered answers a payload that a hook has received, for a sender that waits for it. Name (of the
	// hook), Key (the Item of the payload), Token, Payload (the answer).
	HookAnswered Type = 35

	// MessageReceived moves a message from the inbox into the log. Name (the topic), Item, Payload.
	MessageReceived Type = 40
	// ValueRecorded keeps a value that the code computed once. Key, Payload or Failure.
	ValueRecorded Type = 41
	// MessageSent sends a message to another run. Name (the topic), Key, Next (that
	// run), Item, Payload.
	MessageSent Type = 42
	// SendCompleted says that the other run has accepted it. Next, Item.
	SendCompleted Type = 43
	// SendFailed says that the other run has refused it. Next, Item, Failure.
	SendFailed Type = 44

	// ChildCreated starts another run. Name (its workflow), Key, Next (its id), Spec,
	// Payload (its input), Close, Ack, Active, Finished. If the Spec has no Parent, it is no
	// child: then ChildCompleted says that it exists, without a Payload.
	ChildCreated Type = 50
	// ChildStarted says that the child exists; only with Ack. Next.
	ChildStarted Type = 51
	// ChildCancelRequested asks the child to end. Next, Reason.
	ChildCancelRequested Type = 52
	// ChildCompleted is the child's result. Next (the last run of its chain), Payload.
	ChildCompleted Type = 53
	// ChildFailed is the child's error, or why it could not be started. Next, Failure; Outcome if it is OutcomeUnsure.
	ChildFailed Type = 54
	// ChildCanceled says that the child was canceled. Next, Failure; Outcome if it is OutcomeUnsure.
	ChildCanceled Type = 55

	// ValueSet publishes a value under a name. Name, Key, Payload.
	ValueSet Type = 60
	// ValuesKept says that the values are published again that were set in what a run
	// has taken over of an older one.
	ValuesKept Type = 61

	// StreamWritten says that chunks were written to a stream, by the code of the
	// run or by a step that another run executes for this one. The chunks are not in
	// the log: its Payload is taken out of it where it is committed. Name, Key; of a
	// step Name, Key (the step's), Attempt, Item.
	StreamWritten Type = 64
	// StreamClosed says that nothing more will be written to a stream. Name, Key; if a
	// step has closed it Name, Key (the step's), Attempt, and perhaps Item; if it was a
	// run before this one in its chain Name.
	StreamClosed Type = 65

	// AskReceived is a question that came when nothing could validate it. Name, Item,
	// Payload.
	AskReceived Type = 70
	// AskAccepted is a question that was validated before it was recorded. Name, Item,
	// Payload.
	AskAccepted Type = 71
	// AskAnswered is its answer. Key (the Item of the question), Payload or Failure.
	AskAnswered Type = 72
	// AskRefused says that a question was not accepted. Key (its Item), Failure.
	AskRefused Type = 73

	// RunPaused says that the code of the run stands still from here on. Item, Reason; or
	// Next, this run, where what it has taken over of an older one ends.
	RunPaused Type = 80
	// RunResumed lets it go on, even if it was executed operation by operation. Item, Reason;
	// or Next, this run, where its own work begins.
	RunResumed Type = 81
	// RunReleased lets a run begin that was created held. Item, Reason.
	RunReleased Type = 82
	// RunStepped lets the code of a run in debug mode do one durable operation. Item, Reason.
	RunStepped Type = 83
	// VersionRecorded keeps which version of a change the run follows. Name (the
	// change), Payload (the version).
	VersionRecorded Type = 84
	// ResourceWait says that something had to wait for limits. Uses (all that it must have at
	// once), From; Key, Next if it is not the run itself: the step, and the run that executes it
	// or takes permits for this one.
	ResourceWait Type = 85
	// RunDelayed ends what a rerun has taken over of an older run, as RunResumed does with Next, and lets its code stand still until a
	// RunResumed, which a worker adds at the time of Due. Next, Due.
	RunDelayed Type = 86
)

// An Entity is a kind of thing that events are about.
type Entity uint8

// The entities. None is for facts that have no life of their own, such as a
// received message.
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

// table is types by number, because the decoder and the state ask for each event.
var table = func() (t [256]typeInfo) {
	for typ, info := range types {
		t[typ] = info
	}
	return t
}()

// Known reports whether this release knows the type.
func (t Type) Known() bool { return table[t].name != "" }

// Entity returns the kind of thing that an event of this type is about.
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

// UnmarshalText reads a name as [Type.MarshalText] writes it.
func (t *Type) UnmarshalText(text []byte) error {
	parsed, err := ParseType(string(text))
	if err != nil {
		return err
	}
	*t = parsed
	return nil
}
