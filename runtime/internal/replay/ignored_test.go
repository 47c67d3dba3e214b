package replay

import (
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// heedless returns a program that sleeps n times, or forever if n is 0, and ignores all errors.
// Then it calls a step.
func heedless(n int) Program {
	return func(b *Branch, s *Scope, _ []byte) Ending {
		for i := 0; n == 0 || i < n; i++ {
			b.Gate(s)
			_ = b.Sleep(s, b.Until(time.Minute))
		}
		doStep(b, b.NewScope(nil), "p.after", "")
		return done("")
	}
}

func TestIgnored_CodeThatGoesOnAndOnAfterACancelFailsTheRunNowAndInAReplay(t *testing.T) {
	h := begin(t, heedless(0))
	h.cancel()
	last := h.log[len(h.log)-1]
	if last.Type != event.RunFailed || last.Failure.Code != event.CodeEndIgnored {
		t.Fatalf("the log ends with %s, want run_failed with code %s", describe(&last), event.CodeEndIgnored)
	}
	h.replay(heedless(0))
}

// TestIgnored_ALogThatGoesOnIsFollowed proves that a replay follows the log if the log continues
// after the limit of ignored operations. The log was written by code that began fewer operations.
func TestIgnored_ALogThatGoesOnIsFollowed(t *testing.T) {
	h := begin(t, heedless(mostIgnored/2))
	h.cancel()
	if last := h.log[len(h.log)-1]; last.Type != event.StepCreated {
		t.Fatalf("the log ends with %s, want step_created", describe(&last))
	}
	h.replay(heedless(2 * mostIgnored))
}

func TestIgnored_WhatIsRegisteredIsUndone(t *testing.T) {
	code := func(b *Branch, s *Scope, in []byte) Ending {
		b.Compensate(func(b *Branch, s *Scope) *event.Failure {
			doStep(b, s, "p.undo", "")
			return nil
		})
		return heedless(0)(b, s, in)
	}
	h := begin(t, code)
	h.cancel()
	if last := h.log[len(h.log)-1]; last.Type != event.StepCreated || last.Name != "p.undo" {
		t.Fatalf("the log ends with %s, want step_created of p.undo", describe(&last))
	}
	h.replay(code)
}
