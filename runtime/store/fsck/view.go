package fsck

import (
	"fmt"
	"maps"
	"slices"

	"github.com/flowgen/flowgen/runtime/store"
)

// checkViews checks invariant 27: the shared views can be read.
func (c *checker) checkViews() {
	for _, name := range slices.Sorted(maps.Keys(c.Views)) {
		if _, err := store.UnpackView(name, c.Views[name]); err != nil {
			c.find(27, "", fmt.Sprintf("there is %.60q as view %.60q, which is none", c.Views[name], name), "it is shown to nobody")
		}
	}
}
