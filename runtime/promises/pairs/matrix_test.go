package pairs_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
)

// table counts and describes the cells of a test. The flag -pairs.table prints the descriptions.
type table struct {
	mu                     sync.Mutex
	cells, refused, broken int
	lines                  []string
}

// add adds a judged cell.
func (n *table) add(c *cell) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cells++
	if c.want.Answer != done {
		n.refused++
	}
	if len(c.broken) > 0 {
		n.broken++
	}
	line := fmt.Sprintf("%-40s %-28s %-12s %-12s %s", c.scene.name, c.cmd.name, c.want.Answer, c.want.Effect, c.by)
	for _, b := range c.broken {
		line += fmt.Sprintf("\n    %s: %s", b.rule, b.what)
	}
	n.lines = append(n.lines, line)
}

func (n *table) print(t *testing.T) {
	slices.Sort(n.lines)
	if *printTable {
		t.Log("\n" + strings.Join(n.lines, "\n"))
	}
	t.Logf("%d cells: %d are refusals, %d do not follow the rules", n.cells, n.refused, n.broken)
}

// inPartitions is the number of partitions of the stores that have several.
const inPartitions = 4

// cellsOf returns the cells of a scene, each with the result that the rules determine.
func cellsOf(t *testing.T, sc *scene, how hosting) (all []*cell) {
	t.Helper()
	for i, cmd := range commands() {
		if (sc.noID || sc.noStarts) && strings.HasPrefix(cmd.verb, "start") || sc.alone && cmd.bulk || leavesOut(sc, how, &cmd) {
			continue
		}
		c := &cell{scene: sc, cmd: &cmd, key: fmt.Sprintf("%s-%d", strings.ReplaceAll(strings.ReplaceAll(sc.name, ",", ""), " ", "-"), i)}
		if !sc.noID {
			c.id = c.key
		}
		c.freed = map[event.RunID]bool{}
		for n := 0; (sc.full || sc.filled) && c.id != "" && event.SlotOf(c.id)%inPartitions != event.SlotOf("flowgen.limits")%inPartitions; n++ {
			c.id = fmt.Sprintf("%s-%d", c.key, n) // finds a workflow ID in the partition of the limits, where the run itself waits for its permits
		}
		var err error
		if c.want, c.by, err = expect(&sc.facts, cmd.verb); err != nil {
			t.Errorf("%s × %s: %v", sc.name, cmd.name, err)
			continue
		}
		if cmd.bulk {
			c.want = inBulk(&sc.facts, cmd.verb, c.want)
		}
		for _, key := range c.rows() {
			c.owed = append(c.owed, owed[key]...)
		}
		all = append(all, c)
	}
	return all
}

// rows returns the keys in owed that apply to the cell.
func (c *cell) rows() [][2]string {
	return [][2]string{{c.scene.name, c.cmd.name}, {c.scene.name, "*"}, {"*", c.cmd.name}, {"*", "*"}}
}

// compare fails the test if a cell violates rules that owed does not list for it. It adds the
// violated rules to seen.
func compare(t *testing.T, c *cell, seen map[[2]string][]string) {
	t.Helper()
	for _, b := range c.broken {
		if !slices.Contains(c.owed, b.rule) {
			t.Errorf("%s × %s: %s: %s", c.scene.name, c.cmd.name, b.rule, b.what)
		}
		for _, key := range c.rows() {
			seen[key] = append(seen[key], b.rule)
		}
	}
}

func TestPairs_ACommandInAnyStateDoesWhatTheRulesDecide(t *testing.T) {
	var n table
	seen := map[[2]string][]string{}
	flowctl, withFlowctl := buildFlowctl(t), scenesOnStores()
	for i := range scenes {
		sc := &scenes[i]
		if !strings.Contains(sc.name, *onlyScene) {
			continue
		}
		for _, how := range hostingsOf(sc) {
			t.Run(sc.name+", "+string(how), func(t *testing.T) {
				cells := cellsOf(t, sc, how)
				s := onMemory(t, (i+int(*seed))%2 == 0, how)
				if slices.Contains(withFlowctl, sc) {
					s.flowctl = flowctl
				}
				judge(s, cells)
				for _, c := range cells {
					compare(t, c, seen)
					n.add(c)
				}
			})
		}
	}
	for key, rules := range owed {
		for _, r := range rules {
			if *onlyScene == "" && !slices.Contains(seen[key], r) {
				t.Errorf("%s × %s follows %s now: remove the row of owed_test.go", key[0], key[1], r)
			}
		}
	}
	n.print(t)
}
