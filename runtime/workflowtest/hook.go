package workflowtest

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Payload is one payload that a stand-in sends to a hook.
type Payload[T any] struct {
	After time.Duration // virtual time from the opening of the hook until the payload is sent
	Value T
	// Err is sent instead of Value, which makes the attempt fail. It is allowed only for the hook
	// of a step.
	Err error
}

// StubHook adds a stand-in for the sender to hooks with this name. It sends the payloads to each
// hook that a run or an attempt of a step opens, at their times. If the hook is closed earlier, the
// remaining payloads are dropped.
//
//	workflowtest.StubHook(env, orders.Paid, workflowtest.Payload[orders.Callback]{After: time.Hour, Value: …})
//
// In virtual time, the tokens of hooks are the same in each execution of a test.
func StubHook[T any](e *Env, h workflow.Hook[T], payloads ...Payload[T]) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.hooks == nil {
		e.hooks = map[string]func(id, token string){}
	}
	e.hooks[h.Name()] = func(id, token string) {
		for i, p := range payloads {
			e.later(p.After, func(ctx context.Context) {
				key := workflow.IdempotencyKey(fmt.Sprint(id, i))
				var err error
				if p.Err != nil {
					err = h.Fail(ctx, e.client, token, p.Err, key)
				} else {
					err = h.Send(ctx, e.client, token, p.Value, key)
				}
				if err != nil && !errors.Is(err, workflow.ErrHookDisposed) && ctx.Err() == nil {
					e.fail("workflowtest: StubHook: " + err.Error())
				}
			})
		}
	}
}

// later calls f when d has passed from the current time.
func (e *Env) later(d time.Duration, f func(ctx context.Context)) {
	if e.virtual() {
		d += e.Now().Sub(Epoch)
	}
	e.At(d, f)
}

// opened notifies the stand-in of a hook that was opened. The caller must hold the lock.
func (e *Env) opened(run event.RunID, ev *event.Event) {
	id := ev.Correlation(run)
	if ev.Attempt > 0 { // each attempt of a step opens its own hook
		id += fmt.Sprint("/", ev.Attempt)
	}
	if stub := e.hooks[ev.Name]; stub != nil && !e.hooked[id] {
		if e.hooked == nil {
			e.hooked = map[string]bool{}
		}
		e.hooked[id] = true // the same commit may be recorded twice
		stub(id, ev.Token)
	}
}

// secret returns the secret part of a hook's token.
func secret(run event.RunID, key string) string {
	sum := sha256.Sum256([]byte(string(run) + " " + key))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}
