package flows_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/examples/guide/flows"
)

func TestPrint_ShowsAnAnswerWhileItIsWritten(t *testing.T) {
	client, _ := serve(t, &flows.Fleet{})
	run, err := flows.Reply.Start(limited(t), client, "that")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	next, err := flows.Print(limited(t), run, 1, &out)
	if got, want := out.String(), "Well, to that there is no answer "; got != want || next != 8 || err != nil {
		t.Errorf("printed %q, then %d, %v; want %q", got, next, err, want)
	}
	out.Reset()
	if _, err := flows.Print(limited(t), run, 6, &out); out.String() != "no answer " || err != nil {
		t.Errorf("from chunk 6 it printed %q, %v", out.String(), err)
	}
	var seen []int
	if err := flows.Measurements(limited(t), run, func(n int) { seen = append(seen, n) }); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(seen, []int{2, 3, 4, 5, 6, 7, 8, 9, 10, 11}) {
		t.Errorf("measurements are %v, want the last ten", seen)
	}
}
