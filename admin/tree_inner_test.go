package admin

import (
	"slices"
	"testing"
)

// TestOPS1_ATreeHasEachRunOnce proves that a tree contains each run only once. A store of an older
// release may contain imported runs that are their own ancestors.
func TestOPS1_ATreeHasEachRunOnce(t *testing.T) {
	var got Tree
	got.grow(Run{ID: "a"}, 0, map[string][]Run{"a": {{ID: "a"}, {ID: "b"}}, "b": {{ID: "a"}}}, map[string]bool{})
	var ids []string
	for _, b := range got.Runs {
		ids = append(ids, b.ID)
	}
	if want := []string{"a", "b"}; !slices.Equal(ids, want) {
		t.Errorf("got the runs %v, want %v", ids, want)
	}
}
