package admintest

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/ops"
)

func listsCatalog(s *Scene) {
	s.described()
	const schema = `{"additionalProperties":false,"properties":{"what":{"type":"string"}},"required":["what"],"type":"object"}`
	got, err := s.Service.Catalog(s.ctx(), admin.CatalogFilter{Workflow: Workflow})
	if err != nil || len(got.Workflows) != 1 || got.Next != "" {
		s.Fatalf("got %+v, %v", got, err)
	}
	v := got.Workflows[0].Versions[0]
	if got.Workflows[0].Workflow != Workflow || v.Queue != "default" || v.Build == "" || v.At.IsZero() || string(v.Input) != schema || string(v.Output) != `{"type":"string"}` {
		s.Errorf("got %+v", v)
	}
	direct, err := s.Direct.Catalog(s.ctx(), admin.CatalogFilter{})
	if err != nil {
		s.Fatal(err)
	}
	var names []string
	for f, n := (admin.CatalogFilter{Limit: 1}), 0; ; n++ {
		page, err := s.Service.Catalog(s.ctx(), f)
		if err != nil || len(page.Workflows) > 1 || n > 100 {
			s.Fatalf("got %+v, %v", page, err)
		}
		for i := range page.Workflows {
			names = append(names, page.Workflows[i].Workflow)
		}
		if f.After = page.Next; f.After == "" {
			break
		}
	}
	var want []string
	for i := range direct.Workflows {
		want = append(want, direct.Workflows[i].Workflow)
	}
	same(s, "names", names, want)
	if !slices.Contains(names, Workflow) || !slices.Contains(names, visit.Name()) {
		s.Errorf("got %v", names)
	}
	none, err := s.Service.Catalog(s.ctx(), admin.CatalogFilter{Workflow: "nobody"})
	if err != nil {
		s.Fatal(err)
	}
	same(s, "an unknown workflow", none, admin.CatalogPage{Workflows: []admin.CatalogWorkflow{}})
	for _, f := range []admin.CatalogFilter{{Limit: -1}, {Limit: 1001}} {
		_, err := s.Service.Catalog(s.ctx(), f)
		problem(s, fmt.Sprintf("%+v", f), err, http.StatusBadRequest, admin.CodeInput)
	}
}

// described waits until the worker has registered its last workflow. It registers workflows in the
// order of their names.
func (s *Scene) described() {
	s.Helper()
	for ctx := s.ctx(); ; {
		got, err := ops.New(s.Client).Catalog(ctx, ops.CatalogQuery{Workflow: admin.BulkRuns.Name()}) // admin.Service lists no internal workflow
		if err != nil {
			s.Fatal(err)
		}
		if len(got) == 1 {
			return
		}
	}
}

func refusesInputs(s *Scene) {
	s.described()
	for input, pointer := range map[string]string{
		``: "", `null`: "", `[]`: "", `{}`: "/what", `{"what":3}`: "/what", `{"what":null}`: "/what", `{"what":"good","a/b":1}`: "/a~1b",
	} {
		_, err := s.Service.Start(s.ctx(), admin.Start{Workflow: Workflow, Input: admin.Payload(input)})
		problem(s, "input "+input, err, http.StatusUnprocessableEntity, admin.CodeInput)
		if p := admin.ProblemOf(err); p != nil && (len(p.Faults) != 1 || p.Faults[0].Pointer != pointer || p.Faults[0].Problem == "") {
			s.Errorf("input %s: got the faults %+v, want one at %q", input, p.Faults, pointer)
		}
		_, err = s.Service.PutSchedule(s.ctx(), admin.NewSchedule{Name: "never", Timing: admin.Timing{When: yearly}, Workflow: Workflow, Input: admin.Payload(input)})
		problem(s, "schedule of input "+input, err, http.StatusUnprocessableEntity, admin.CodeInput)
	}
	page, err := s.Direct.Runs(s.ctx(), admin.Filter{Workflow: "nobody.knows"})
	if err != nil || len(page.Runs) != 0 {
		s.Fatalf("got %+v, %v", page, err)
	}
	if _, err := s.Service.Start(s.ctx(), admin.Start{Workflow: "nobody.knows", Input: admin.Payload(`{"any":[1]}`)}); err != nil {
		s.Errorf("a workflow of which nothing is known: %v", err)
	}
	raw := admin.Payload(`{"WHAT":"good"}`) // names match as in encoding/json, which ignores case
	if _, err := s.Service.Start(s.ctx(), admin.Start{Workflow: Workflow, Input: raw}); err != nil {
		s.Errorf("a name in other letters: %v", err)
	}
}
