package failure_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
)

// through converts an error like the outcome of a child that is sent to its parent. It returns the
// failure and its encoded size.
func through(t *testing.T, err error) (*event.Failure, int) {
	t.Helper()
	b, werr := event.AppendItem(nil, &event.Event{Type: event.ChildFailed, Ref: 1, Failure: failure.Encode(err, event.CodeError)})
	if werr != nil {
		t.Fatal(werr)
	}
	e, werr := event.DecodeItem(b)
	if werr != nil {
		t.Fatal(werr)
	}
	return e.Failure, len(b)
}

// size returns the number of causes of a failure, and the total length of its texts.
func size(f *event.Failure) (causes, text int) {
	for _, c := range f.Causes {
		n, l := size(c)
		causes, text = causes+n+1, text+l
	}
	return causes, text + len(f.Message)
}

func TestEncode_KeepsTypedCausesThroughHundredsOfRuns(t *testing.T) {
	err := errors.Join(fmt.Errorf("root cause: %w", errKnown), &known{Code: 7}, open{Name: "x"})
	largest, first := 0, 0
	for i := range 500 {
		f, n := through(t, fmt.Errorf("run number %d of workflow orders.fulfil failed: %w", i, err))
		causes, text := size(f)
		if causes > failure.MaxCauses || text > 3*failure.MaxText {
			t.Fatalf("run %d stores %d causes and %d bytes of text", i, causes, text)
		}
		largest = max(largest, n)
		if i == 99 {
			first = n
		}
		err = &failure.StoredError{F: f}
	}
	if largest > 2*first {
		t.Errorf("a failure grew from %d bytes in run 100 to %d", first, largest)
	}
	var k *known
	var o open
	if !errors.Is(err, errKnown) || !errors.As(err, &k) || k.Code != 7 || !errors.As(err, &o) || o.Name != "x" {
		t.Errorf("after 500 runs: sentinel %v, types %+v %+v", errors.Is(err, errKnown), k, o)
	}
	if text := err.Error(); !strings.HasPrefix(text, "run number 499 ") || !strings.Contains(text, "root cause: known") {
		t.Errorf("the text lacks its beginning or its end: %.100s", text)
	}
}

func TestEncode_StoresEachNameThatCanBeMatchedOfManyCauses(t *testing.T) {
	var all []error
	for i := range 400 {
		all = append(all, fmt.Errorf("wrapper %d: %w", i, errUnknown))
	}
	f, _ := through(t, errors.Join(append(all, &known{Code: 1}, &known{Code: 2}, errKnown)...))
	var k *known
	if !failure.Is(f, errKnown) || !failure.As(f, &k) || k.Code != 1 {
		t.Errorf("sentinel %v, type %+v, want the first one", failure.Is(f, errKnown), k)
	}
	if n, _ := size(f); n != failure.MaxCauses {
		t.Errorf("%d causes are stored, want %d", n, failure.MaxCauses)
	}
}

func TestEncode_TakesASharedCauseOnce(t *testing.T) {
	err := fmt.Errorf("a: %w", errKnown)
	for range 60 { // a tree with 2^60 paths
		err = fmt.Errorf("%.20w and %.20w", err, err)
	}
	f, _ := through(t, err)
	if n, _ := size(f); n > failure.MaxCauses || !failure.Is(f, errKnown) {
		t.Errorf("%d causes, sentinel found: %v", n, failure.Is(f, errKnown))
	}
}

// nested is an error whose value also contains its cause.
type nested struct {
	Inner *nested
	Fill  string
}

func (e *nested) Error() string { return "nested" }
func (e *nested) Unwrap() error {
	if e.Inner == nil {
		return errKnown
	}
	return e.Inner
}

func TestEncode_LeavesOutValuesThatAreTooLarge(t *testing.T) {
	var err *nested
	for range 300 {
		err = &nested{Inner: err, Fill: strings.Repeat("x", 10_000)}
	}
	f, n := through(t, fmt.Errorf("a: %w: %w", &known{Code: 3}, err))
	var k *known
	if !failure.Is(f, errKnown) || !failure.As(f, &k) || n > 512<<10 {
		t.Errorf("%d bytes; sentinel %v, type %+v", n, failure.Is(f, errKnown), k)
	}
}

func TestEncode_CutsTextsAndSaysHowMuchIsMissing(t *testing.T) {
	f, n := through(t, fmt.Errorf("first %s last: %w", strings.Repeat("é", 5<<19), errKnown))
	if n > 3*failure.MaxText || !utf8.ValidString(f.Message) {
		t.Errorf("an error of 5 MB takes %d bytes", n)
	}
	var cut int
	at := strings.Index(f.Message, "…[")
	if _, err := fmt.Sscanf(f.Message[max(at, 0):], "…[%d bytes cut]…", &cut); err != nil || cut < 5<<20-failure.MaxText {
		t.Errorf("the mark says %d bytes: %v", cut, err)
	}
	if !strings.HasPrefix(f.Message, "first é") || !strings.HasSuffix(f.Message, "é last: known") || !failure.Is(f, errKnown) {
		t.Errorf("got %.20s … %s", f.Message, f.Message[len(f.Message)-20:])
	}
	if p := failure.Panicked(strings.Repeat("x", 1<<20), make([]byte, 1<<20)); len(p.Message) > failure.MaxText || len(p.Stack) > failure.MaxText {
		t.Errorf("a panic stores %d and %d bytes", len(p.Message), len(p.Stack))
	}
}

func TestCut_CountsWhatWasCutBefore(t *testing.T) {
	for _, size := range []int{100, 101, 5000, 1 << 20} {
		s := strings.Repeat("a", size/2) + strings.Repeat("z", size-size/2)
		for _, limit := range []int{90, 80, 60, 40} {
			s = failure.Cut("+"+s, limit)
			size++
			var cut int
			at := strings.Index(s, "…[")
			_, err := fmt.Sscanf(s[at:], "…[%d bytes cut]…", &cut)
			kept := len(s) - len(fmt.Sprintf("…[%d bytes cut]…", cut))
			if err != nil || kept+cut != size || len(s) > limit || strings.Count(s, "[") != 1 {
				t.Errorf("%q: of %d bytes %d are said to be missing: %v", s, size, cut, err)
			}
		}
	}
	if got := failure.Cut("as it is", 8); got != "as it is" {
		t.Errorf("got %q", got)
	}
	if got := failure.Cut(strings.Repeat("é", 100), 50); !utf8.ValidString(got) || strings.Contains(got, "\uFFFD") {
		t.Errorf("a character was cut: %q", got)
	}
}

func TestEncode_ReplacesWhatIsNotText(t *testing.T) {
	f := failure.Encode(errors.New("a\xffb"), event.CodeError)
	if f.Message != "a\uFFFDb" {
		t.Errorf("got %q", f.Message)
	}
	if _, err := json.Marshal(f); err != nil {
		t.Error(err)
	}
}
