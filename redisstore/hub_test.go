package redisstore

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEar_ThatHasTooMuchToRememberLooksEverywhere(t *testing.T) {
	a, b := &topic{name: "a", ears: map[*ear]struct{}{}}, &topic{name: "b", ears: map[*ear]struct{}{}}
	e := &ear{topics: []*topic{a, b}, bell: make(chan struct{}, 1)}
	a.ears[e], b.ears[e] = struct{}{}, struct{}{}
	b.tell(hint{topic: "b", text: "kept"})
	for n := range hintsKept + 2 {
		a.tell(hint{topic: "a", text: fmt.Sprint(n)})
	}
	want := []hint{{topic: "a", again: true}, {topic: "b", again: true}}
	if diff := cmp.Diff(want, e.heard, cmp.AllowUnexported(hint{})); diff != "" {
		t.Errorf("hints (-want +got):\n%s", diff)
	}
}
