package machine

import "encoding/json"

// Machine contains the properties of a state machine on which a decision depends.
type Machine struct {
	Has func(step string) bool // reports whether the step exists
	Max int                    // how many steps may begin; 0 means any number
}

// Kind is the kind of an event of a machine.
type Kind string

// The kinds of events.
const (
	Returned Kind = "returned" // a step has returned Next, or Next is the first transition of the machine
	Failed   Kind = "failed"   // a step has failed permanently; Next is the transition for this case, or nil
	Received Kind = "received" // the machine has waited for the messages of Next, and the message of a case has arrived
	TimeUp   Kind = "time up"  // the machine has waited for Next, and its time has passed
)

// Event is an event of a machine.
type Event struct {
	Kind    Kind
	Next    *Next
	Case    int             // index into Next.Waits
	Message json.RawMessage // message of the case
}

// Verb is the kind of an action.
type Verb string

// The verbs of actions.
const (
	Start    Verb = "start"    // start Step with Args
	Await    Verb = "await"    // wait for the messages or the time of Next
	Complete Verb = "complete" // complete with Result
	Fail     Verb = "fail"     // fail with Reason
	Block    Verb = "block"    // block the run, because the code does not have Step, which other code has named
)

// Reason is the reason for which a machine fails.
type Reason string

// The reasons for a failure.
const (
	StepFailed Reason = "a step has failed, and leads nowhere"
	TooMany    Reason = "Step would be one more than may begin"
	Nowhere    Reason = "a step has returned what leads nowhere"
)

// Action is the next action of a machine.
type Action struct {
	Do     Verb
	Step   string
	Args   json.RawMessage
	Next   *Next
	Result json.RawMessage
	Reason Reason
}

// Decide returns the action that follows the event last. begun is the number of steps that have
// begun.
func (m Machine) Decide(last Event, begun int) Action {
	switch last.Kind {
	case Returned:
		return m.follow(last.Next, begun)
	case Failed:
		if last.Next == nil {
			return Action{Do: Fail, Reason: StepFailed}
		}
		return m.follow(last.Next, begun)
	case Received:
		if last.Next != nil && last.Case >= 0 && last.Case < len(last.Next.Waits) {
			w := &last.Next.Waits[last.Case]
			if args, err := w.with(last.Message); err == nil {
				return m.start(w.Step, args, begun)
			}
		}
	case TimeUp:
		if last.Next != nil {
			return m.follow(last.Next.Then, begun)
		}
	}
	return Action{Do: Fail, Reason: Nowhere}
}

func (m Machine) follow(n *Next, begun int) Action {
	switch {
	case n == nil:
		return Action{Do: Fail, Reason: Nowhere}
	case len(n.Waits) > 0 || n.Then != nil:
		return Action{Do: Await, Next: n}
	case n.Done:
		return Action{Do: Complete, Result: n.Result}
	case n.Step != "":
		return m.start(n.Step, n.Args, begun)
	}
	return Action{Do: Fail, Reason: Nowhere}
}

func (m Machine) start(step string, args json.RawMessage, begun int) Action {
	switch {
	case !m.Has(step):
		return Action{Do: Block, Step: step}
	case m.Max > 0 && begun >= m.Max:
		return Action{Do: Fail, Step: step, Reason: TooMany}
	}
	return Action{Do: Start, Step: step, Args: args}
}
