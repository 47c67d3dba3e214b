package machine

import "encoding/json"

// Machine is what a decision needs to know of a machine.
type Machine struct {
	Has func(step string) bool // whether there is such a step
	Max int                    // how many steps may begin; 0: any number
}

// Kind says what has happened to a machine.
type Kind string

// The kinds of events.
const (
	Returned Kind = "returned" // a step has returned Next, or the machine begins with it
	Failed   Kind = "failed"   // a step has failed for good; Next is where that leads, nil: nowhere
	Received Kind = "received" // while it waited as Next says, the message of a case has come
	TimeUp   Kind = "time up"  // while it waited as Next says, its time has passed
)

// Event is what has happened to a machine.
type Event struct {
	Kind    Kind
	Next    *Next
	Case    int             // of Next.Waits
	Message json.RawMessage // of that
}

// Verb says what a machine does.
type Verb string

// The verbs.
const (
	Start    Verb = "start"    // Step with Args
	Await    Verb = "await"    // what Next says
	Complete Verb = "complete" // with Result
	Fail     Verb = "fail"     // for Reason
	Block    Verb = "block"    // since there is no such Step: this is not the code that has named it
)

// Reason is why a machine fails.
type Reason string

// The reasons.
const (
	StepFailed Reason = "a step has failed, and leads nowhere"
	TooMany    Reason = "Step would be one more than may begin"
	Nowhere    Reason = "a step has returned what leads nowhere"
)

// Action is what a machine does next.
type Action struct {
	Do     Verb
	Step   string
	Args   json.RawMessage
	Next   *Next
	Result json.RawMessage
	Reason Reason
}

// Decide returns what comes after an event, when so many steps have begun.
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
