package failuregroup_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/failuregroup"
	"github.com/flowgen/flowgen/runtime/store"
)

var update = flag.Bool("update", false, "write the golden file again")

// said returns a failure without a type.
func said(code, message string) *event.Failure { return &event.Failure{Code: code, Message: message} }

// typed returns a failure with a type.
func typed(code, name, message string, causes ...*event.Failure) *event.Failure {
	return &event.Failure{Code: code, Type: name, Message: message, Causes: causes}
}

// ofStep returns the failure of a workflow that returned the error of a step.
func ofStep(step string, f *event.Failure) *event.Failure {
	data, _ := json.Marshal(map[string]any{"run": "wrun_1", "step": step, "key": "fulfil/go#2/" + step + "#1", "attempts": 3, "code": f.Code})
	return &event.Failure{Code: f.Code, Type: "flowgen.StepError", Message: "step " + step + " failed after 3 attempts: " + f.Message, Data: data, Causes: []*event.Failure{f}}
}

// ofRun returns the failure of a workflow that returned the error of a child.
func ofRun(f *event.Failure) *event.Failure {
	return typed(f.Code, "flowgen.RunError", "run wrun_2 of orders.child failed: "+f.Message, f)
}

func panics(f func()) (stack string) {
	defer func() {
		_ = recover()
		stack = string(debug.Stack())
	}()
	f()
	return ""
}

func indexes()  { var a []int; _ = a[len(os.Args)+5] } //nolint:govet // it panics on purpose
func divides()  { func() { panic("in a literal") }() }
func nilDeref() { var t *testing.T; t.Fail() } //nolint:govet // it panics on purpose

func panicked(text string, f func()) *event.Failure {
	return &event.Failure{Code: event.CodePanic, Message: text, Stack: panics(f)}
}

// messages are texts of errors without types, like those of libraries and of users.
var messages = []string{
	"card declined", "503 from carrier", "404 from carrier: order-4711", `Get "https://api.example.com/v1/orders/17": context deadline exceeded`,
	"dial tcp 10.0.3.17:5432: connect: connection refused", "dial tcp [2001:db8::1]:5432: i/o timeout", "read tcp 10.1.2.3:41234->10.9.8.7:443: connection reset by peer",
	"lookup db.internal: no such host", "x509: certificate signed by unknown authority", "x509: certificate has expired or is not yet valid: current time 2026-11-26T02:10:51Z is after 2026-11-01T00:00:00Z",
	"open /var/lib/app/17/data.json: no such file or directory", "json: cannot unmarshal string into Go struct field Order.cents of type int64", "invalid character '<' looking for beginning of value",
	"unexpected end of JSON input", "pq: duplicate key value violates unique constraint \"orders_pkey\"", "ERROR: deadlock detected (SQLSTATE 40P01)", "sql: no rows in result set",
	"user ada@example.com is not allowed", "customer 'Ada' has no address", "can't charge the card: it isn't valid", "order 0b8a7e1c-5b1e-4c56-9f0e-2f6f4e1f9a11 is closed",
	"run wrun_01Q3G996480000000000009K90 is not there", "took 1.532s, limit 1s", "took 3m20s", "waited until 14:02:11", "rate limit exceeded: retry after 30 seconds", "deadbeefcafe is no commit",
	"items [1 2 3] are missing", "items [1 2 3 4 5] are missing", "a: b: c", "", "   ", "§", "error #17", "line 1\nline 2\n", "„quoted“ text", "the answer is “yes”", "strconv.Atoi: parsing \"abc\": invalid syntax",
	"exit status 1", "signal: killed", "no space left on device", "assertion failed: want 3, got 4", "template: page.html:12: unexpected EOF", "unknown field `colour` in the input",
}

// named is a failure group with a description.
type named struct {
	name string
	t    store.FailureGroup
}

// shortage is an error with a type.
type shortage struct{ Item int }

func (e *shortage) Error() string { return fmt.Sprintf("no stock of item %d", e.Item) }

// golden returns examples with their groups. Examples with the same ID are in the same group.
func golden() (all []named) {
	add := func(name string, t store.FailureGroup) { all = append(all, named{name, t}) }
	for _, m := range messages {
		add("says "+fmt.Sprintf("%q", m), failuregroup.Failed("orders.fulfil", said(event.CodeError, m)))
	}
	declined := typed(event.CodeError, "orders.Declined", "card 4711 declined")
	add("typed", failuregroup.Failed("orders.fulfil", declined))
	add("typed, of another workflow", failuregroup.Failed("orders.refund", declined))
	add("typed, wrapped without a type", failuregroup.Failed("orders.fulfil", &event.Failure{Code: event.CodeError, Message: "charge: card 1 declined", Causes: []*event.Failure{declined}}))
	add("typed, in another type", failuregroup.Failed("orders.fulfil", typed(event.CodeError, "orders.Charge", "charge", declined)))
	add("of a step", failuregroup.Failed("orders.fulfil", ofStep("charge", declined)))
	add("of another step", failuregroup.Failed("orders.fulfil", ofStep("ship", declined)))
	add("of a step, untyped", failuregroup.Failed("orders.fulfil", ofStep("charge", said(event.CodeError, "503"))))
	add("of a child", failuregroup.Failed("orders.fulfil", ofRun(ofStep("charge", declined))))
	add("of a child, untyped", failuregroup.Failed("orders.fulfil", ofRun(said(event.CodeError, "no stock of item 5"))))
	_, notThere := os.Open("/no/such/file")
	_, noNumber := strconv.Atoi("x17")
	for name, err := range map[string]error{
		"an error": errors.New("no stock of item 5"), "a formatted error": fmt.Errorf("no stock of item %d", 6),
		"a wrapped error": fmt.Errorf("reserve: %w", errors.New("no stock of item 7")), "joined errors": errors.Join(errors.New("no stock of item 8"), io.EOF),
		"another error": errors.New("no room"), "a file that is not there": notThere, "no number": noNumber,
		"an end": io.ErrUnexpectedEOF, "a wrapped end": fmt.Errorf("read: %w", io.ErrUnexpectedEOF),
		"a refusal": &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}, "a reset": &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNRESET},
		"a type": &shortage{5}, "a type, wrapped": fmt.Errorf("order 17: %w", &shortage{6}),
	} {
		add("stored from "+name, failuregroup.Failed("orders.fulfil", failure.Encode(err, event.CodeError)))
	}
	slices.SortStableFunc(all[len(all)-13:], func(a, b named) int { return strings.Compare(a.name, b.name) })
	add("with another code", failuregroup.Failed("orders.fulfil", said(event.CodeTimeout, "card declined")))
	add("without a failure", failuregroup.Failed("orders.fulfil", nil))
	add("panic", failuregroup.Failed("orders.fulfil", panicked("index out of range [6] with length 0", indexes)))
	add("panic in a literal", failuregroup.Failed("orders.fulfil", panicked("in a literal", divides)))
	add("panic in a library", failuregroup.Failed("orders.fulfil", panicked("nil pointer", nilDeref)))
	add("panic of a step", failuregroup.Failed("orders.fulfil", ofStep("charge", panicked("index out of range", indexes))))
	add("panic without a stack", failuregroup.Failed("orders.fulfil", said(event.CodePanic, "boom 5")))
	add("retrying", failuregroup.Retrying("orders.fulfil", "charge", said(event.CodeError, "503")))
	add("retrying, typed", failuregroup.Retrying("orders.fulfil", "charge", declined))
	add("retrying, timed out", failuregroup.Retrying("orders.fulfil", "charge", said(event.CodeTimeout, "no answer within 30s")))
	add("blocked", failuregroup.Blocked("orders.fulfil", "log: step_created charge, code: step_created reserve"))
	add("blocked the other way round", failuregroup.Blocked("orders.fulfil", "log: step_created reserve, code: step_created charge"))
	add("damaged", failuregroup.Blocked("orders.fulfil", "frame 17 of the log of run wrun_01Q3G996480000000000009K90: corrupt log"))
	return all
}

// TestOPS1_GroupsAreThoseOfTheGoldenFile proves that the IDs of groups do not change. They are
// stored, and users keep them.
func TestOPS1_GroupsAreThoseOfTheGoldenFile(t *testing.T) {
	const file = "testdata/groups.golden"
	var b strings.Builder
	all := golden()
	for _, g := range all {
		fmt.Fprintf(&b, "%s  %-8s  %s | %s\n", g.t.Group, g.t.Kind, g.name, g.t.Text)
	}
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(b.String(), "\n")); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	if len(all) < 60 {
		t.Errorf("%d groups, want 60", len(all))
	}
	for _, g := range all {
		if err := store.CheckGroup(g.t.Group); err != nil {
			t.Error(err)
		}
		if kept := g.t.Kept(); kept != g.t {
			t.Errorf("%s: a store keeps it as %+v", g.name, kept)
		}
	}
}

// TestOPS1_TenThousandMessagesThatVaryAreOneGroup proves that messages which differ only in their
// data are in one group.
func TestOPS1_TenThousandMessagesThatVaryAreOneGroup(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		b := make([]byte, 1+r.IntN(12))
		for i := range b {
			b[i] = "abcdefghijklmnopqrstuvwxyzABC .-_éß"[r.IntN(33)]
		}
		return string(b)
	}
	ids := []func() string{
		func() string { return fmt.Sprint(r.IntN(1_000_000)) },
		func() string { return fmt.Sprintf("order-%d", r.IntN(1_000_000)) },
		func() string {
			return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", r.Uint32(), r.IntN(1<<16), r.IntN(1<<12), r.IntN(1<<16), r.Int64N(1<<48))
		},
		func() string { return string(event.NewRunID(time.Now(), uint16(r.IntN(1000)))) },
		func() string { return fmt.Sprintf("%q", word()) },
		func() string { return fmt.Sprintf("[%d %d]", r.IntN(10), r.IntN(10)) },
		func() string { return fmt.Sprintf("ada%d@example.com", r.IntN(10)) },
		func() string { return fmt.Sprintf("0x%x", r.Uint64()) },
	}
	id := func() string { return ids[r.IntN(len(ids))]() }
	groups := map[string]string{}
	for range 10_000 {
		at := time.Unix(r.Int64N(4e9), r.Int64N(1e9))
		message := fmt.Sprintf("charge %s of customer %s: dial tcp %d.%d.%d.%d:%d: refused after %v at %s, attempt %d of %d",
			id(), id(), r.IntN(256), r.IntN(256), r.IntN(256), r.IntN(256), 1+r.IntN(65535), time.Duration(r.Int64N(1e12)),
			at.Format([]string{time.RFC3339Nano, time.DateTime, time.StampMicro}[r.IntN(2)]), r.IntN(10), r.IntN(100))
		err := errors.New(message)
		for range r.IntN(3) {
			err = fmt.Errorf("%s: %w", id(), err)
		}
		f := ofStep("charge", failure.Encode(err, event.CodeError))
		g := failuregroup.Failed("orders.fulfil", f)
		groups[g.Group] = message
	}
	if len(groups) != 1 {
		for _, m := range groups {
			t.Log(failuregroup.Mask(m), " <- ", m)
		}
		t.Errorf("they are %d groups, want 1", len(groups))
	}
}

// TestOPS1_NoGroupDependsOnLinesOrKeys proves that groups do not depend on line numbers, which
// change with each edit of a file, or on keys.
func TestOPS1_NoGroupDependsOnLinesOrKeys(t *testing.T) {
	f := panicked("index out of range", indexes)
	moved := *f
	moved.Stack = strings.ReplaceAll(f.Stack, "trouble_test.go:", "trouble_test.go:1")
	if a, b := failuregroup.Failed("w", f), failuregroup.Failed("w", &moved); a != b || !strings.Contains(a.Text, "indexes") {
		t.Errorf("a panic is in group %+v, and with other lines in %+v", a, b)
	}
	one, other := ofStep("charge", said(event.CodeError, "busy")), ofStep("charge", said(event.CodeError, "busy"))
	other.Data, _ = json.Marshal(map[string]any{"run": "wrun_9", "step": "charge", "key": "fulfil/go#17/charge#4", "attempts": 5})
	if a, b := failuregroup.Failed("w", one), failuregroup.Failed("w", other); a != b {
		t.Errorf("a failed step is in group %+v, and with another key in %+v", a, b)
	}
}

// TestOPS1_NoTextHoldsWhatIsAboutOneRun proves that the text of a group contains no data of a
// single run. A group may be kept for longer than its runs.
func TestOPS1_NoTextHoldsWhatIsAboutOneRun(t *testing.T) {
	for _, secret := range []string{"4111-1111-1111-1111", "ada@example.com", `"Ada Lovelace"`, "'Ada'", "10.0.0.1:80", "/data/ada/cv.pdf", "https://example.com/ada", "2026-11-26"} {
		for _, where := range []string{"%s", "card %s declined", "declined (%s)", "[%s]: declined", "for=%s,", "%s: no"} {
			if text := failuregroup.Mask(fmt.Sprintf(where, secret)); strings.Contains(text, strings.Trim(secret, `"'`)) || !strings.Contains(text, "§") {
				t.Errorf("%s is masked as %q", fmt.Sprintf(where, secret), text)
			}
		}
	}
	for _, kept := range []string{"card declined", "x509: certificate signed by unknown authority", "json: cannot unmarshal", "it isn't valid"} {
		if got := failuregroup.Mask(kept); got != kept {
			t.Errorf("%q is masked as %q", kept, got)
		}
	}
	if got := failuregroup.Mask(strings.Repeat("word ", 1000)); len(got) > store.MaxFailureGroupText {
		t.Errorf("a long message becomes one of %d bytes", len(got))
	}
}

func TestFailed_EndsWithCausesThatHaveNoEnd(t *testing.T) {
	f := said(event.CodeError, "a")
	f.Causes = []*event.Failure{f}
	if g := failuregroup.Failed("w", f); g.Group == "" {
		t.Error("it has no group")
	}
	if g := failuregroup.Failed("w", &event.Failure{Causes: []*event.Failure{nil}}); g.Group == "" {
		t.Error("one without a cause has no group")
	}
}
