package fsck

import (
	"fmt"
	"maps"
	"slices"

	"github.com/flowgen/flowgen/runtime/store"
)

// checkCatalog checks invariant 25: the catalog of workflows can be read.
func (c *checker) checkCatalog() {
	for _, name := range slices.Sorted(maps.Keys(c.Catalog)) {
		if _, err := store.UnpackCatalog(name, c.Catalog[name]); err != nil {
			c.find(25, "", fmt.Sprintf("the catalogue has %.60q of workflow %.60q, which is no entry", c.Catalog[name], name), "it is shown to nobody")
		}
	}
}
