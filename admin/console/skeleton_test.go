package console

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/admin"
)

// Attempts are told apart: one that failed, one that was interrupted, and the one that has done it.
func TestOPS2_AttemptsAreToldApart(t *testing.T) {
	s := newSkeleton()
	at := time.UnixMilli(1_000_000)
	for i, e := range []admin.Event{
		{Type: "run_created", Ref: 1, Creates: true}, {Type: "step_created", Ref: 2, Creates: true, Name: "ship", Key: "fulfil/go#2/ship#1"}, {Type: "step_started", Ref: 2, Attempt: 1},
		{Type: "step_retrying", Ref: 2, Attempt: 1, Failure: &admin.Failure{Message: "503"}, Due: at.Add(time.Hour)}, {Type: "step_started", Ref: 2, Attempt: 2}, {Type: "step_started", Ref: 2, Attempt: 3},
		{Type: "step_completed", Ref: 2, Attempt: 3},
	} {
		e.Seq, e.Time = uint64(i+1), at.Add(time.Duration(i)*time.Second)
		s.add(&e)
	}
	ops := s.operations()
	if len(ops) != 1 {
		t.Fatalf("there are %d operations, want 1", len(ops))
	}
	var got []string
	for _, a := range ops[0].attempts {
		got = append(got, a.state)
	}
	if diff := cmp.Diff([]string{stateFailed, stateBroken, stateDone}, got); diff != "" || ops[0].state != stateDone {
		t.Errorf("the step is %s, its attempts (-want +got):\n%s", ops[0].state, diff)
	}
}

// What was not looked at for longest is forgotten, and the one that is looked at stays.
func TestOPS2_LogsStayWithinTheirMemory(t *testing.T) {
	l := newLogs(1000)
	for _, run := range []string{"a", "b", "c", "a"} {
		l.count(l.kept(logKey{run: run}), 400)
	}
	if l.bytes != 800 || l.order.Len() != 2 || l.known[logKey{run: "b"}] != nil {
		t.Errorf("%d bytes of %d logs are kept, b among them: %v; want 800 of 2, without it", l.bytes, l.order.Len(), l.known[logKey{run: "b"}] != nil)
	}
	l.count(l.kept(logKey{run: "d"}), 5000)
	if l.order.Len() != 1 || l.known[logKey{run: "d"}] == nil {
		t.Errorf("%d logs are kept, want the large one that is looked at", l.order.Len())
	}
}

func TestOPS2_DeepAndWidePayloadsAreCut(t *testing.T) {
	depth := func(v *valueView) (n int) {
		for ; v != nil; n++ {
			if len(v.Parts) == 0 {
				v = nil
			} else {
				v = v.Parts[0]
			}
		}
		return n
	}
	deep := payloadOf([]byte(strings.Repeat("[", 9000) + strings.Repeat("]", 9000)))
	if n := depth(deep.Tree); n != maxDepth+1 || !deep.Cut || deep.Tree.Parts[0].Text != "1 element" {
		t.Errorf("9,000 levels are shown as %d, cut: %v; want %d, cut", n, deep.Cut, maxDepth+1)
	}
	after := payloadOf([]byte(`{"deep":` + strings.Repeat("[", 20) + `1` + strings.Repeat("]", 20) + `,"n":9223372036854775808}`))
	if len(after.Tree.Parts) != 1 || !after.Cut {
		t.Errorf("behind what is too deep %d fields are shown: want none, and that it is cut", len(after.Tree.Parts)-1)
	}
	for v := after.Tree; len(v.Parts) > 0; v = v.Parts[0] {
		if len(v.Parts) != 1 {
			t.Errorf("%d values are shown where there is one", len(v.Parts))
		}
	}
	exact := payloadOf([]byte(`{"n":9223372036854775808,"n":1}`))
	if len(exact.Tree.Parts) != 2 || exact.Tree.Parts[0].Text != "9223372036854775808" {
		t.Errorf("a number of 64 bits and a name that is there twice: %+v", exact.Tree.Parts)
	}
}

func TestOPS2_WhatCannotBeSeenIsMadeVisible(t *testing.T) {
	for text, want := range map[string]string{"a\x00b": `a\u0000b`, "\u202eabc": `\u202eabc`, "\x1b[31m": `\u001b[31m`, "grün ✓\n\t": "grün ✓\n\t", "\xff": `\ufffd`} {
		if got := visible(text); got != want && !(text == "\xff" && got == "\ufffd") {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
