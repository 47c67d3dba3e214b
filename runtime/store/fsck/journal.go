package fsck

import (
	"fmt"

	"github.com/flowgen/flowgen/runtime/store"
)

// checkJournal checks invariant 24: the entries of the journal can be read and are in order.
func (c *checker) checkJournal() {
	before := ""
	for _, line := range c.Journal {
		if _, err := store.UnpackJournal(line.ID, line.Body); err != nil {
			c.find(24, "", fmt.Sprintf("the journal has %.60q under %.60q, which is no entry", line.Body, line.ID), "it is shown to nobody")
		} else if line.ID == before {
			c.find(24, "", fmt.Sprintf("entry %s of the journal is there twice", line.ID), "it is shown twice, with two outcomes")
		} else if line.ID < before {
			c.find(24, "", fmt.Sprintf("entry %s of the journal comes after %s", line.ID, before), "it is out of order")
		}
		before = line.ID
	}
}
