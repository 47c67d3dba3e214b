package replay

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"pgregory.net/rapid"
)

// stmt is a statement of a random program.
type stmt struct {
	Kind string
	N, M int
	Body []stmt
}

var leaves = []string{"step", "step", "step", "sleep", "receive", "try", "select", "await", "gather", "cancel", "record", "rand", "version", "undo",
	"set", "hook", "payload", "payload", "dispose", "handle", "close asks", "write", "close stream"}
var blocks = []string{"go", "go", "go", "scope", "deadline", "detached", "map"}

func drawBody(t *rapid.T, depth, least, most int) []stmt {
	body := make([]stmt, rapid.IntRange(least, most).Draw(t, "statements"))
	for i := range body {
		kinds := leaves
		if depth > 0 && rapid.IntRange(0, 9).Draw(t, "block") < 4 {
			kinds = blocks
		}
		s := stmt{Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), N: rapid.IntRange(0, 7).Draw(t, "n"), M: rapid.IntRange(0, 7).Draw(t, "m")}
		if depth > 0 {
			s.Body = drawBody(t, depth-1, 1, 3)
		}
		body[i] = s
	}
	return body
}

// interpreter executes a random program and records the observations of its code.
type interpreter struct {
	trace   []string
	scopes  []*Scope
	futures []*Promise
	hooks   []*Hook
	undos   int
}

// program returns the code for body and the interpreter that records the observations.
func program(body []stmt) (Program, *interpreter) {
	x := &interpreter{}
	return func(b *Branch, s *Scope, input []byte) Ending {
		for i := range input {
			input[i] = 'x' // must not change another copy
		}
		x.run(b, s, body)
		result, _ := json.Marshal(x.trace)
		if x.undos%2 == 1 {
			return Ending{Type: event.RunFailed, Failure: &event.Failure{Code: event.CodeError, Message: "odd"}}
		}
		return done(string(result))
	}, x
}

func (x *interpreter) see(b *Branch, format string, args ...any) {
	x.trace = append(x.trace, fmt.Sprintf("%s %d %s: ", b.Path(), b.LogLength(), b.Now().Format("05.000"))+fmt.Sprintf(format, args...))
}

func (x *interpreter) run(b *Branch, s *Scope, body []stmt) {
	for _, st := range body {
		x.exec(b, s, st)
	}
}

func topicName(n int) string { return string(rune('a' + n%3)) }

func (x *interpreter) exec(b *Branch, s *Scope, st stmt) {
	if b.Rand().IntN(2) == 0 {
		b.Gate(s)
	}
	due := func(n int) time.Time { return b.Now().Add(time.Duration(n*n) * 10 * time.Millisecond) }
	switch st.Kind {
	case "step":
		if s.Err() != nil {
			x.see(b, "no step: %v", s.Err())
			return
		}
		op := doStep(b, s, fmt.Sprint("p.s", st.N), fmt.Sprint(st.M))
		x.see(b, "step %s %v %v", op.Payload, op.Failure, op.Canceled)
	case "sleep":
		x.see(b, "slept %v", b.Sleep(s, due(st.N)))
	case "receive":
		var limit time.Time
		if st.M > 3 {
			limit = due(st.M)
		}
		e, err := b.Receive(s, topicName(st.N), limit)
		x.see(b, "received %s %v", payloadOf(e), err)
	case "try":
		x.see(b, "tried %s", payloadOf(b.TryReceive(topicName(st.N))))
	case "record":
		v, f := b.Record(func() ([]byte, *event.Failure) { return []byte(fmt.Sprint(len(b.Path()))), nil })
		x.see(b, "recorded %s %v", v, f)
	case "undo":
		x.undos++
		u := b.Compensate(func(b *Branch, s *Scope) *event.Failure {
			op := doStep(b, s, fmt.Sprint("p.undo", st.N), fmt.Sprint(st.M))
			x.see(b, "undone %v", op.Failure)
			if st.N == 7 {
				panic("an undo panics")
			}
			return op.Failure
		})
		if st.M == 0 {
			u.Withdraw()
		}
	case "version":
		x.see(b, "version %d", b.Version(topicName(st.N), 0, 4))
	case "write":
		if name := topicName(st.N); !b.run.closed[name] {
			b.WriteStream(name, func() ([]byte, *event.Failure) { return []byte(fmt.Sprint(st.M)), nil })
			x.see(b, "wrote to %s", name)
		}
	case "close stream":
		b.CloseStream(topicName(st.N))
		x.see(b, "closed %v", b.run.ClosedStreams())
	case "rand":
		x.see(b, "random %d", b.Rand().Uint32())
	case "cancel":
		if len(x.scopes) > 0 {
			x.scopes[st.N%len(x.scopes)].Cancel()
			x.see(b, "canceled %d", st.N%len(x.scopes))
		}
	case "go":
		x.spawn(b, s, st)
	case "set", "hook", "payload", "dispose", "handle", "close asks":
		x.say(b, s, st, due)
	default:
		x.execBlock(b, s, st, due)
	}
}

func (x *interpreter) say(b *Branch, s *Scope, st stmt, due func(int) time.Time) {
	var h *Hook
	if len(x.hooks) > 0 {
		h = x.hooks[st.N%len(x.hooks)]
	}
	switch {
	case st.Kind == "set":
		b.SetValue(topicName(st.N), b.Key("set"), []byte(fmt.Sprint(st.M)), func(rec []byte) string { return DiffJSON(rec, []byte(fmt.Sprint(st.M))) })
	case st.Kind == "hook":
		key := b.Key("hook")
		h := b.NewHook(key, HookSpec{Name: topicName(st.N)}, func() string { return "token " + key })
		x.hooks = append(x.hooks, h)
		x.see(b, "opened %s", h.Token)
	case st.Kind == "handle":
		b.Handle(topicName(st.N), &Handler{
			Validate: func(payload []byte) *event.Failure {
				if len(payload)%2 == 0 {
					return &event.Failure{Code: event.CodeError, Message: "even"}
				}
				return nil
			},
			Answer: func(nb *Branch, payload []byte) ([]byte, *event.Failure) {
				x.see(nb, "asked %s", payload)
				x.run(nb, s, st.Body)
				return payload, nil
			},
		})
	case st.Kind == "close asks" && b.Path() == "flow":
		b.CloseAsks()
	case st.Kind == "payload" && h != nil:
		e, err := b.ReceiveHook(s, h, due(st.M))
		x.see(b, "payload %s %v", payloadOf(e), err)
	case st.Kind == "dispose" && h != nil:
		b.DisposeHook(h)
		x.see(b, "closed %s", h.Token)
	}
}

func (x *interpreter) execBlock(b *Branch, s *Scope, st stmt, due func(int) time.Time) {
	switch st.Kind {
	case "scope", "deadline", "detached":
		sub := (*Scope)(nil)
		switch st.Kind {
		case "scope":
			sub = b.NewScope(s)
		case "deadline":
			if sub = b.NewDeadline(s, due(st.N)); st.M%3 == 0 {
				sub = b.NewTimeout(s, due(st.N).Sub(b.Now()))
			}
		default:
			sub = b.NewScope(nil)
		}
		x.scopes = append(x.scopes, sub)
		if st.M%2 == 0 {
			defer sub.Cancel()
		}
		x.run(b, sub, st.Body)
		x.see(b, "scope %v", sub.Err())
	case "map":
		sub := b.NewScope(s)
		defer sub.Cancel()
		x.scopes = append(x.scopes, sub)
		var ps []*Promise
		for range st.N%3 + 1 {
			ps = append(ps, x.spawn(b, sub, st))
		}
		for _, p := range ps {
			v, err := b.Await(sub, p, "an item")
			x.see(b, "item %v %v", v, err)
		}
	case "await":
		if len(x.futures) > 0 {
			v, err := b.Await(s, x.futures[st.N%len(x.futures)], "a branch")
			x.see(b, "awaited %v %v", v, err)
		}
	case "gather":
		x.gather(b, s, st)
	case "select":
		cases := []Case{{Topic: topicName(st.N)}, {Due: due(st.M)}, {Topic: topicName(st.M)}}
		if len(x.futures) > 0 {
			cases = append(cases, Case{Promise: x.futures[st.M%len(x.futures)]})
		}
		if len(x.hooks) > 0 {
			cases = append([]Case{{Hook: x.hooks[st.M%len(x.hooks)]}}, cases...)
		}
		won, e, err := b.Select(s, cases[:st.N%len(cases)+1])
		x.see(b, "selected %d %s %v", won, payloadOf(e), err)
	}
}

func (x *interpreter) gather(b *Branch, s *Scope, st stmt) {
	ps := x.futures[max(0, len(x.futures)-3):]
	stop := []func(int, any) bool{
		nil, // the promise is resolved
		func(int, any) bool { return true },
		func(_ int, v any) bool { return v.(int)%2 == 0 },
	}[st.N%3]
	g := NewGather(append([]*Promise(nil), ps...), stop)
	v, err := b.Await(s, &g.Promise, "branches")
	x.see(b, "gathered %v %v", v, err)
}

func (x *interpreter) spawn(b *Branch, s *Scope, st stmt) *Promise {
	p := spawn(b, s, func(b *Branch) any {
		x.run(b, s, st.Body)
		return st.M
	})
	x.futures = append(x.futures, p)
	return p
}

func payloadOf(e *event.Event) string {
	if e == nil {
		return "nothing"
	}
	return string(e.Payload)
}
