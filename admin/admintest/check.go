package admintest

import (
	"maps"
	"net/http"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// checks examines the store, and repairs a run with a damaged record.
func checks(s *Scene) {
	exam, err := s.Service.Examine(s.ctx())
	if err != nil || exam.Supported == (len(exam.Findings) == 0) {
		s.Errorf("examine: %+v, %v", exam, err)
	}
	for _, f := range exam.Findings {
		if f.Check == "" || f.Severity == "" || f.Found == "" {
			s.Errorf("a finding that says nothing: %+v", f)
		}
	}
	if _, ok := store.As[store.Rebuilder](s.Client.Store()); !ok {
		_, err := s.Service.Check(s.ctx())
		problem(s, "checking a store that cannot be", err, http.StatusNotImplemented, admin.CodeUnsupported)
		_, err = s.Service.Repair(s.ctx(), admin.Because{})
		problem(s, "repairing a store that cannot be", err, http.StatusNotImplemented, admin.CodeUnsupported)
		return
	}
	ref := s.Ended("good", "checked-1")
	s.Damage(ref)
	plan, err := s.Service.Check(s.ctx())
	if err != nil || plan.Repair || plan.Planned != 1 || plan.Done != 0 || plan.Left == 0 || plan.Runs == 0 || len(plan.Fixes) != 1 {
		s.Fatalf("check: %+v, %v, want one repair that is planned", plan, err)
	}
	if f := plan.Fixes[0]; f.Run != ref || f.Outcome != "planned" || f.Action == "" || len(f.Broken) == 0 || f.Broken[0].Invariant == 0 || f.Broken[0].What == "" || f.Broken[0].Explain == "" {
		s.Errorf("the plan is %+v, want one for run %s", f, ref)
	}
	done, err := s.Service.Repair(s.ctx(), admin.Because{})
	if err != nil || !done.Repair || done.Done != 1 || done.Left != 0 || len(done.Fixes) != 1 || done.Fixes[0].Outcome != "repaired" {
		s.Fatalf("repair: %+v, %v, want one that was made", done, err)
	}
	sound, err := s.Service.Check(s.ctx())
	if err != nil || sound.Planned+sound.Left+len(sound.Fixes) != 0 {
		s.Errorf("check after the repair: %+v, %v", sound, err)
	}
	r, err := s.Direct.Run(s.ctx(), ref)
	if err != nil || r.Tags["damaged"] != "" {
		s.Errorf("the run is %+v, %v", r, err)
	}
}

// Damage adds a tag to the record of a run. The log does not contain the tag, so the record is
// damaged.
func (s *Scene) Damage(ref string) {
	s.Helper()
	st := s.Client.Store()
	rebuilder, ok := store.As[store.Rebuilder](st)
	if !ok {
		s.Fatal("the store cannot be damaged: it is no store.Rebuilder")
	}
	for p := range st.Partitions() {
		part, err := rebuilder.ReadPartition(s.ctx(), p)
		if err != nil {
			s.Fatal(err)
		}
		r := part.Snapshot.Runs[event.RunID(ref)]
		if r == nil {
			continue
		}
		rec := r.Record
		rec.Tags = maps.Clone(rec.Tags)
		if rec.Tags == nil {
			rec.Tags = map[string]string{}
		}
		rec.Tags["damaged"] = "yes"
		m := &store.Rebuild{Run: r.Run, Record: &rec, Last: rec.WorkflowID != "", Reasons: []store.Reason{store.ReasonStuckTerminal}, By: "admintest"}
		if ok, err := part.Rebuild(s.ctx(), m); err != nil || !ok {
			s.Fatalf("damage run %s: %v, %v", ref, ok, err)
		}
		return
	}
	s.Fatalf("run %s is in no partition", ref)
}
