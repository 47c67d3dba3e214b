package deploy

import (
	"fmt"
	"time"
)

const tableHead = `| store | deploy | ` + "`Version`" + ` | workers end by | completed | failed | blocked by a worker | longest | until old or new code came back | attempts used up | given back | took |
|---|---|---|---|---|---|---|---|---|---|---|---|
`

// cells returns all deployments.
func cells(kills bool) []cell {
	var all []cell
	for _, kill := range []bool{false, true} {
		for _, store := range []string{"sqlite", "redis"} {
			for _, strategy := range strategies {
				for _, version := range []bool{true, false} {
					if !kill || kills {
						all = append(all, cell{store: store, strategy: strategy, version: version, kill: kill})
					}
				}
			}
		}
	}
	return all
}

func (c *cell) signal() string {
	if c.kill {
		return "SIGKILL"
	}
	return "SIGTERM"
}

func (c *cell) asks() string {
	if c.version {
		return "yes"
	}
	return "no"
}

// name returns the description of a cell's deployment.
func (c *cell) name() string {
	return fmt.Sprintf("%s/%s/version=%s/%s", c.store, c.strategy, c.asks(), c.signal())
}

func (c *cell) row(got *outcome) string {
	return fmt.Sprintf("| %s | %s | %s | %s | %d of %d | %d | %d | %.1f s | %d | %d | %d | %d s |", c.store, c.strategy, c.asks(), c.signal(),
		got.completed, c.runs, got.failed, got.blocked, got.longest.Seconds(), got.waited, got.used, got.given, int(got.took/time.Second))
}
