package machine

import "encoding/json"

// Machine contains the properties of a machine that a decision depends on.
type Machine struct {
	Has func(step string) bool // reports whether the step exists
	Max int                    // how many steps may begin; 0: any number
}

// Kind is the kind of an event of a machine.
type Kind string

// The kinds of events.
const (
	Returned Kind = "returned" // a step has returned Next, or the machine begins with it
	Failed   Kind = "failed"   // a step has failed permanently; Next is the transition for that, or nil
	Received Kind = "received" // the machine waited as in Next, and the message of a case has arrived
	TimeUp   Kind = "time up"  // the machine waited as in Next, and its time has passed
)

// Event is an event of a machine.
type Event struct {
	Kind    Kind
	Next    *Next
	Case    int             // index into Next.Waits
	Message json.RawMessage // message of that case
}

// Verb is the kind of an action.
type Verb string

// The verbs.
const (
	Start    Verb = "start"    // start Step with Args
	Await    Verb = "await"    // wait as in Next
	Complete Verb = "complete" // complete with Result
	Fail     Verb = "fail"     // fail with Reason
	Block    Verb = "block"    // block the run, because Step does not exist: other code has named it
)

// Reason is the reason for which a machine fails.
type Reason string

// The reasons.
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

// Decide returns the action that follows an event, when begun steps have begun.
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
