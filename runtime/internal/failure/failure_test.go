package failure_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
)

var (
	errKnown   = errors.New("known")
	errUnknown = errors.New("unknown")
)

type known struct {
	Code   int
	hidden string
}

func (e *known) Error() string { return fmt.Sprint("known ", e.Code, e.hidden) }

type twin struct{ Code int }

func (e *twin) Error() string { return "twin" }

type open struct {
	Name string
	Tags []string
}

func (e open) Error() string { return "open " + e.Name }

type closed struct{ name string }

func (e closed) Error() string { return "closed " + e.name }

type boxed struct{ Inner error }

func (e boxed) Error() string { return "boxed" }
func (e boxed) Unwrap() error { return e.Inner }

type text string

func (e text) Error() string { return string(e) }

// hostile is an error whose methods panic.
type hostile struct{ inner error }

func (e *hostile) Error() string                { return e.inner.Error() }
func (e *hostile) Unwrap() error                { return e.inner }
func (e *hostile) MarshalJSON() ([]byte, error) { panic("marshal") }
func (e *hostile) UnmarshalJSON([]byte) error   { panic("unmarshal") }

type list []error

func (e list) Error() string   { return "list" }
func (e list) Unwrap() []error { return e }

func init() {
	failure.RegisterSentinel("t.errKnown", errKnown)
	failure.RegisterType(reflect.TypeFor[*known](), "t.known")
	failure.RegisterType(reflect.TypeFor[*twin](), "t.known")
	failure.RegisterType(reflect.TypeFor[*hostile](), "t.hostile")
}

// stored returns the failure that results from encoding an error and decoding it.
func stored(t *testing.T, err error) *event.Failure {
	t.Helper()
	b, merr := json.Marshal(failure.Encode(err, event.CodeError))
	if merr != nil {
		t.Fatal(merr)
	}
	f := &event.Failure{}
	if err := json.Unmarshal(b, f); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestIs_FindsRegisteredSentinelsInTheChain(t *testing.T) {
	for name, tt := range map[string]struct {
		err    error
		target error
		want   bool
	}{
		"itself":           {errKnown, errKnown, true},
		"wrapped":          {fmt.Errorf("a: %w", errKnown), errKnown, true},
		"joined":           {errors.Join(errUnknown, fmt.Errorf("b: %w", errKnown)), errKnown, true},
		"of two causes":    {fmt.Errorf("%w and %w", errUnknown, errKnown), errKnown, true},
		"in a list":        {list{nil, errKnown}, errKnown, true},
		"another":          {errUnknown, errKnown, false},
		"not registered":   {errUnknown, errUnknown, false},
		"nil":              {errKnown, nil, false},
		"uncomparable":     {errKnown, list{errKnown}, false},
		"holds a slice":    {open{Name: "a"}, open{Name: "a"}, false},
		"same text as one": {errors.New("known"), errKnown, false},
	} {
		if got := failure.Is(stored(t, tt.err), tt.target); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
	if failure.Is(nil, errKnown) {
		t.Error("no failure is a sentinel")
	}
}

func TestAs_ReadsErrorsByTheirWireName(t *testing.T) {
	f := stored(t, fmt.Errorf("a: %w", errors.Join(errUnknown, &known{Code: 7, hidden: "h"}, open{"x", []string{"y"}}, text("hello"), closed{"c"})))
	var k *known
	var w *twin
	var o open
	var s text
	if !failure.As(f, &k) || k.Code != 7 || k.hidden != "" {
		t.Errorf("registered: %+v", k)
	}
	if !failure.As(f, &w) || w.Code != 7 {
		t.Errorf("its copy in a client package: %+v", w)
	}
	if !failure.As(f, &o) || !cmp.Equal(o, open{"x", []string{"y"}}) {
		t.Errorf("of exported fields: %+v", o)
	}
	if !failure.As(f, &s) || s != "hello" {
		t.Errorf("of a basic type: %q", s)
	}
	var c closed
	var po *open
	var iface error
	var nothing *known
	for name, target := range map[string]any{
		"fields that are not stored": &c, "a pointer to it": &po, "an interface": &iface, "no pointer": 7, "a nil pointer": (**known)(nil),
	} {
		if failure.As(f, target) {
			t.Errorf("%s: matched", name)
		}
	}
	if failure.As(nil, &nothing) || failure.As(stored(t, errUnknown), &nothing) {
		t.Error("matched what is not there")
	}
}

func TestEncode_SurvivesErrorsWhoseMethodsPanic(t *testing.T) {
	var typedNil *known
	var hostileNil *hostile
	for name, err := range map[string]error{
		"nil pointer": typedNil, "nil pointer with Unwrap": hostileNil, "value that cannot be marshalled": &hostile{errKnown},
		"wrapped": fmt.Errorf("a: %w", error(&hostile{errUnknown})),
	} {
		f := stored(t, err)
		if f.Message == "" || f.Code != event.CodeError {
			t.Errorf("%s: got %+v", name, f)
		}
		var h *hostile
		if failure.As(f, &h) {
			t.Errorf("%s: read back as %v", name, h)
		}
	}
	if !failure.Is(stored(t, &hostile{errKnown}), errKnown) {
		t.Error("the cause of an error that cannot be marshalled is lost")
	}
	if failure.As(&event.Failure{Type: "t.hostile", Data: []byte(`{}`)}, new(*hostile)) {
		t.Error("a value whose UnmarshalJSON panics matched")
	}
}

func TestEncode_KeepsTheStoredFormOfWhatWasReadBackAndGivesACopy(t *testing.T) {
	f := stored(t, fmt.Errorf("a: %w", errKnown))
	again := failure.Encode(&failure.StoredError{F: f}, "other")
	if diff := cmp.Diff(f, again); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	again.Code = "changed"
	if f.Code != event.CodeError {
		t.Error("the caller has changed the record")
	}
	if err := error(&failure.StoredError{F: f}); !errors.Is(err, errKnown) || err.Error() != "a: known" || failure.CodeOf(fmt.Errorf("b: %w", err)) != event.CodeError {
		t.Errorf("as an error: %v", err)
	}
	if failure.CodeOf(errKnown) != "" {
		t.Error("a plain error has a code")
	}
}

func TestRegisterSentinel_RefusesWhatCannotBeCompared(t *testing.T) {
	for name, err := range map[string]error{"nil": nil, "slice": list{}, "struct with a slice": open{}, "box of a slice": boxed{list{}}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was registered", name)
				}
			}()
			failure.RegisterSentinel("t."+name, err)
		}()
	}
}
