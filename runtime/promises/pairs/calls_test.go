package pairs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// calls returns the commands that the code of a run answers, and the commands that are sent to a
// hook. An ask is answered only when the code of the run has handled it.
func calls() []command {
	return []command{
		{"ask", verbAsk, false, func(ctx context.Context, s *stage, c *cell) answer {
			got, err := double.Ask(ctx, s.Client.Run(c.run), 21)
			if err == nil && got != 42 {
				err = fmt.Errorf("the answer is %d, want 42", got)
			}
			return answeredWith("", err)
		}},
		{"send to its hook", verbHook, false, func(ctx context.Context, s *stage, c *cell) answer {
			return answeredWith("", s.Client.SendToHook(ctx, s.tokenOf(c), json.RawMessage(`"sent"`)))
		}},
		{"call its hook", verbHook, false, func(ctx context.Context, s *stage, c *cell) answer {
			_, err := s.Client.CallHook(ctx, s.tokenOf(c), workflow.HookRequest{Body: []byte(`"called"`)})
			return answeredWith("", err)
		}},
		{"fail its hook", verbFailing, false, func(ctx context.Context, s *stage, c *cell) answer {
			return answeredWith("", s.Client.FailHook(ctx, s.tokenOf(c), errors.New("by the cell")))
		}},
	}
}

// tokenOf returns the token of the hook of a cell's run. If the run has no hook, it returns a token
// that does not exist.
func (s *stage) tokenOf(c *cell) string {
	if c.facts.Kind == kindToken {
		return "token-" + c.key
	}
	s.mu.Lock()
	of := slices.Clone(s.tokens[c.key])
	s.mu.Unlock()
	if len(of) > 0 {
		return of[len(of)-1]
	}
	if token, ok, err := tokens.Get(s.Ctx, s.Client.Run(c.run)); err == nil && ok {
		return token
	}
	return "none-" + c.key
}

func hooked(f *facts)     { f.Hook = true }
func hookedStep(f *facts) { f.Hook, f.OfStep = true, true }

// handles reports whether the code of a run answers asks now: the code has begun and is not
// suspended.
func (f *facts) handles() bool {
	return f.Begun && !f.kept() && !f.Paused && !f.gated() && !f.Delayed
}

// callRules are the rules for the commands of calls.
var callRules = []rule{
	// R5: A run in every open state accepts asks. Its code answers them when it continues.
	{"R5", func(f *facts, verb string) (outcome, bool) {
		switch {
		case verb != verbAsk || f.Gone || f.Kind.own():
			return outcome{}, false
		case f.open():
			return when(f.handles(), does(unchanged), outcome{waits, unchanged}), true
		case f.Status == event.StatusContinued && f.Last.Place != store.StateEnded:
			return does(unchanged), true // the last run of the chain answers
		}
		return refuses, true
	}},
	// FLOW6: An item that is sent to a token arrives at the hook of the token until the run has
	// ended, whatever the run does. Only hooks of steps can be failed.
	{"FLOW6", func(f *facts, verb string) (outcome, bool) {
		switch {
		case !in(verb, verbHook, verbFailing):
			return outcome{}, false
		case !f.Hook:
			return missing, true
		case !f.open(): // the end of the run has closed its hook
			return refuses, true
		case verb == verbFailing && !f.OfStep:
			return outcome{admin.CodeInput, unchanged}, true
		}
		return does(unchanged), true
	}},
}

// answered reports whether the command of a cell has been answered. It records the answer in the
// cell.
func (c *cell) answered() bool {
	select {
	case c.got = <-c.answers:
		return true
	default:
		return false
	}
}

// unanswered fails cells whose command was answered although the run could not have handled it.
func unanswered(cells []*cell) {
	for _, c := range cells {
		if c.want.Answer == waits && c.got.Code == waits && c.answered() {
			c.breaks(c.by, "answer: got %s (%v), want none before the run goes on", c.got.Code, c.got.Err)
		}
	}
}

// answered fails cells whose command waits for an answer although the run has ended.
func answered(s *stage, cells []*cell) {
	s.T.Helper()
	await(s, cells, decided, func(c *cell) string {
		if c.want.Answer == waits && c.got.Code == waits && !c.answered() {
			return "there is no answer although the run has ended"
		}
		return ""
	})
}
