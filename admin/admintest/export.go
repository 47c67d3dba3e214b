package admintest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/flowgen/flowgen/admin"
)

// export returns the counts and the contents of an export.
func (s *Scene) export(r admin.ExportRequest) (n admin.ExportCount, file string) {
	s.Helper()
	var b bytes.Buffer
	var last admin.ExportCount
	r.Told = func(n admin.ExportCount) { last = n }
	n, err := s.Service.Export(s.ctx(), r, &b)
	if err != nil {
		s.Fatal(err)
	}
	checked, err := admin.CopyExport(io.Discard, bytes.NewReader(b.Bytes()), admin.ExportRequest{})
	if err != nil || checked != n || last != n {
		s.Errorf("the export has %+v, %v; %+v were told of, and %+v returned", checked, err, last, n)
	}
	return n, b.String()
}

func exports(s *Scene) {
	good, talk := s.Ended("good", "export-good"), s.talks("export-talk")
	family := s.Start("family", "export-family")
	s.below(family)
	n, file := s.export(admin.ExportRequest{Runs: []string{good, "id:export-talk", good}})
	// The two runs have two streams and two published values, which are also stored as streams.
	if n.Runs != 2 || n.Streams != 4 || n.Chunks != 6 || n.Frames < 2 {
		s.Errorf("two runs, one of them twice: %+v", n)
	}
	for _, want := range []string{good, talk} {
		if !strings.Contains(file, want) {
			s.Errorf("the export does not name run %s", want)
		}
	}
	many := make([]string, 5000) // more names than fit into the headers of a request
	for i := range many {
		many[i] = []string{good, "id:export-talk"}[i%2]
	}
	if got, _ := s.export(admin.ExportRequest{Runs: many}); got != n {
		s.Errorf("two runs, named 5,000 times: %+v, want %+v", got, n)
	}
	if n, _ := s.export(admin.ExportRequest{Filter: admin.Filter{WorkflowID: "export-family"}}); n.Runs != 1 {
		s.Errorf("one run by a filter: %+v", n)
	}
	if n, _ := s.export(admin.ExportRequest{Filter: admin.Filter{WorkflowID: "export-family"}, Tree: true}); n.Runs != 3 {
		s.Errorf("a run and those below it: %+v", n)
	}
	if n, _ := s.export(admin.ExportRequest{Filter: admin.Filter{Root: family}}); n.Runs != 3 {
		s.Errorf("the runs of a root: %+v", n)
	}
	if n, _ := s.export(admin.ExportRequest{Filter: admin.Filter{WorkflowID: "nobody"}}); n != (admin.ExportCount{}) {
		s.Errorf("no run: %+v", n)
	}
	counts, err := s.Direct.Count(s.ctx(), admin.Filter{Children: true})
	if err != nil {
		s.Fatal(err)
	}
	all := 0
	for _, one := range counts.Counts {
		all += one.Runs
	}
	if n, _ := s.export(admin.ExportRequest{All: true, Filter: admin.Filter{Children: true}}); n.Runs < all || all < 5 {
		s.Errorf("all runs: %+v, want %d or more", n, all)
	}
}

func refusesExports(s *Scene) {
	ref := s.Start(strings.Repeat("x", 1<<18), "export-refused") // the input is larger than the output buffer
	s.Until(ref, "waiting")
	filter := admin.Filter{Workflow: Workflow}
	for what, r := range map[string]admin.ExportRequest{
		"nothing": {}, "only what adds runs": {Filter: admin.Filter{System: true, Children: true}, Tree: true}, "runs and a filter": {Runs: []string{ref}, Filter: filter},
		"runs and all": {Runs: []string{ref}, All: true}, "a name that is none": {Runs: []string{"order-1"}}, "no name": {Runs: []string{""}}, "a status that is none": {Filter: admin.Filter{Statuses: []string{"asleep"}}},
		"a page":   {Filter: admin.Filter{Workflow: Workflow, Limit: 1}},
		"a cursor": {Filter: admin.Filter{Workflow: Workflow, Cursor: "x"}}, "an order": {Filter: admin.Filter{Workflow: Workflow, Oldest: true}}, "a budget": {Filter: admin.Filter{Workflow: Workflow, Budget: 1}},
	} {
		var b bytes.Buffer
		_, err := s.Service.Export(s.ctx(), r, &b)
		problem(s, "export of "+what, err, http.StatusBadRequest, admin.CodeInput)
		if b.Len() > 0 {
			s.Errorf("export of %s: %d bytes were written", what, b.Len())
		}
	}
	var b bytes.Buffer
	var err error
	for _, nobody := range []string{"id:nobody", "id:\xff"} { // all names are resolved before the first run is written
		_, err = s.Service.Export(s.ctx(), admin.ExportRequest{Runs: []string{ref, nobody}}, &b)
		problem(s, "export of a run that is not there", err, http.StatusNotFound, admin.CodeNotFound)
	}
	if b.Len() > 0 {
		s.Errorf("%d bytes were written before a run was missed", b.Len())
	}
	ended, cancel := context.WithCancel(s.ctx())
	cancel()
	_, err = s.Service.Export(ended, admin.ExportRequest{All: true}, &b)
	problem(s, "an ended context", err, http.StatusServiceUnavailable, admin.CodeInterrupted)
}
