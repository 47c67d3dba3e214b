package redisstore

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/flowgen/flowgen/runtime/store"
)

// packShare returns a fair key and its share, which scripts read; empty: there is none.
func packShare(fair string, share int) string {
	if fair == "" {
		return ""
	}
	return strconv.Itoa(share) + " " + fair
}

func unpackShare(packed string) (fair string, share int) {
	n, fair, _ := strings.Cut(packed, " ")
	share, _ = strconv.Atoi(n)
	return fair, share
}

// showFlows adds the flows to a snapshot. What cannot be read is left out, and the error names it.
func showFlows(v *view, snap *store.Snapshot) (err error) {
	for _, name := range sortedKeys(v.flows.Val()) {
		code, text, _ := strings.Cut(name, ":")
		priority, wrong := strconv.Atoi(text)
		waits, _, ok := unpackFlow(v.flows.Val()[name])
		if wrong != nil || !ok {
			err = fmt.Errorf("%w: flow %s is %q", errDamaged, name, v.flows.Val()[name])
			continue
		}
		route := store.Route{Workflow: unnamed + code}
		if known, ok := v.routes.Val()[code]; ok {
			route = parseRoute(known)
		}
		snap.Flows[store.FlowID{Route: route, Priority: priority}] = waits
	}
	return err
}

func unpackFlow(packed string) (waits int, pass int64, ok bool) {
	var last int64
	n, _ := fmt.Sscan(packed, &waits, &pass, &last)
	return waits, pass, n == 3
}

// flowsByRuns counts the runs that have their places by fair keys.
func (e *partitionState) flowsByRuns() map[store.FlowID]int {
	counted := map[store.FlowID]int{}
	for _, r := range e.snap.Runs {
		if r.InFlow() {
			counted[store.FlowID{Route: r.Route, Priority: r.Priority}]++
		}
	}
	return counted
}

// wrongFlow says what is wrong with the flows; empty: nothing is. Each has so many runs as it
// counts, which have places, and no key of them begins again before its own runs.
func (e *partitionState) wrongFlow() string {
	want := map[string]int{}
	flowOf := func(run string, r *store.RunState) string { return e.metaOf(run)["c"] + ":" + strconv.Itoa(r.Priority) }
	for run := range e.runs {
		if r := e.snap.Runs[long(run)]; r != nil && r.InFlow() {
			want[flowOf(run, r)]++
		}
	}
	for _, name := range sortedKeys(e.flows.Val()) {
		waits, _, ok := unpackFlow(e.flows.Val()[name])
		if !ok || waits != want[name] {
			return fmt.Sprintf("flow %s is %q, and %d runs say that they are in it", name, e.flows.Val()[name], want[name])
		}
		delete(want, name)
	}
	for _, name := range sortedKeys(want) {
		return fmt.Sprintf("flow %s is not counted, and has %d runs", name, want[name])
	}
	passes := map[string]int64{}
	for _, flow := range e.keys.flows {
		for _, z := range e.passes[flow].Val() {
			key, _ := z.Member.(string)
			passes[flow+" "+key] = int64(z.Score)
		}
		if len(e.passes[flow].Val()) > 0 && e.flows.Val()[flow] == "" {
			return fmt.Sprintf("flow %s has passes, and no runs", flow)
		}
	}
	for _, run := range sortedKeys(e.runs) {
		m, r := e.runs[run].meta.Val(), e.snap.Runs[long(run)]
		if r == nil || !r.InFlow() || len(m) == 0 {
			continue
		}
		placed := placeIn(m["V"])
		place, err := strconv.ParseInt(placed, 16, 64)
		if err != nil || len(placed) != orderDigits || m["p"] != placed {
			return fmt.Sprintf("run %s has a fair key, and its place is %q and %q", r.Run, placed, m["p"])
		}
		flow := flowOf(run, r)
		_, pass, _ := unpackFlow(e.flows.Val()[flow])
		if after := store.PassAfter(place, r.Share); after > max(pass, passes[flow+" "+r.Fair]) {
			return fmt.Sprintf("fair key %q of flow %s begins again before run %s", r.Fair, flow, r.Run)
		}
	}
	return ""
}
