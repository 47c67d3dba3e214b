package console_test

import (
	"fmt"
	"testing"

	"github.com/flowgen/flowgen/admin/console"
)

// A view is its address: whoever is given that sees the same runs under the same name, and a browser keeps it under that.
func TestOPS2_AViewIsAnAddressWithAName(t *testing.T) {
	s := newSite(t, console.Config{})
	for i := range 51 { // one more than a page has
		s.Ended("bad", fmt.Sprint("order-", i))
	}
	for at, title := range map[string]string{
		"runs": "Runs", "runs?q=status:failed+since:24h": "Runs: Failed today", "runs?q=status:failed": "Runs: status:failed", "runs?view=Mine": "Runs: Mine",
		"runs?q=status:failed&view=Night+%3Cb%3E+%E2%80%AE+shift": `Runs: Night &lt;b&gt; \u202e shift`, "runs?q=no:such&view=Broken": "Runs: Broken",
	} {
		status := 200
		if at == "runs?q=no:such&view=Broken" {
			status = 400
		}
		has(t, s.get(at, status), "<title>"+title+" · flowgen</title>")
	}
	page := s.get("runs?q=status:failed&view=Night+shift", 200)
	has(t, page, `<a href="/flows/runs?q=status%3afailed&amp;view=Night%20shift" aria-current="true">Night shift</a>`, "view=Night&#43;shift\" rel=\"next\"")
	hasNot(t, page, `aria-current="true">All</a>`)
}
