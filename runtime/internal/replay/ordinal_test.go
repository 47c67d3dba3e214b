package replay

import (
	"strconv"
	"testing"
)

func TestOrdinals_CountEachNameHoweverManyThereAre(t *testing.T) {
	var o ordinals
	for use := 1; use <= 3; use++ {
		for name := range 3 * fewNames {
			if got := o.next(strconv.Itoa(name)); got != use {
				t.Errorf("use %d of name %d is number %d", use, name, got)
			}
		}
	}
}
