package console

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// TestOPS2_FormsThatWereRefusedOrAreManyAreNotKept proves that refused forms are not kept and that
// the number of kept forms is limited. Otherwise a viewer could fill the memory with large inputs.
func TestOPS2_FormsThatWereRefusedOrAreManyAreNotKept(t *testing.T) {
	o := newOnce(func() time.Time { return time.Unix(0, 0) })
	refused := &admin.NotAllowedError{What: "no", Fix: "none"}
	acts := 0
	act := func(err error) func() (string, *view, error) {
		return func() (string, *view, error) { acts++; return fmt.Sprint(acts), nil, err }
	}
	for n := range 1000 {
		if _, _, err := o.do("eve", fmt.Sprint(n), "start", act(refused)); !errors.Is(err, refused) {
			t.Fatalf("got %v", err)
		}
	}
	if len(o.done) != 0 {
		t.Errorf("%d forms that were refused are kept, want none", len(o.done))
	}
	ada, _, _ := o.do("ada", "1", "start", act(nil))
	for n := range 1000 {
		_, _, _ = o.do("eve", fmt.Sprint(n), "start", act(nil))
	}
	if len(o.done) != sentMost+1 {
		t.Errorf("%d forms are kept, want the last %d of one and the one of another", len(o.done), sentMost)
	}
	if again, _, _ := o.do("ada", "1", "start", act(nil)); again != ada {
		t.Errorf("the form that was sent twice has acted twice: %s, %s", ada, again)
	}
	before := acts
	for range 2 {
		_, _, _ = o.do("ada", "", "start", act(nil))
	}
	if acts != before+2 {
		t.Errorf("two forms without a key have acted %d times, want 2", acts-before)
	}
	lost := errors.New("the store has not answered")
	for range 2 {
		if _, _, err := o.do("ada", "2", "start", act(lost)); !errors.Is(err, lost) {
			t.Errorf("got %v, want that it is not known", err)
		}
	}
	if acts != before+3 {
		t.Errorf("a form of which nobody knows what it did has acted %d times, want once", acts-before-2)
	}
}
