package pairs_test

import (
	"context"
	"regexp"
	"slices"
	"strconv"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// face is the state of a run as one interface shows it. Fields that the interface does not show are
// copied from the service.
type face struct {
	admin.Run
}

// faces returns the face of a run for each interface, by the name of the interface. The face "log"
// is derived from the log of the run.
func faces(ctx context.Context, s *stage, c *cell) (map[string]face, error) {
	run, err := s.direct.Run(ctx, string(c.run))
	if err != nil {
		return nil, err
	}
	over, err := s.remote.Run(ctx, string(c.run))
	if err != nil {
		return nil, err
	}
	info, err := s.Client.Run(c.run).Info(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]face{"service": {run}, "http": {over}, "info": {infoShown(&info, &run)}, "log": {logShown(s, &run, c.facts.Debug)}}
	page, err := s.direct.Runs(ctx, admin.Filter{Tags: tagsOf(&run), Root: run.Root, System: true, Children: true, Limit: 1000})
	if err != nil {
		return nil, err
	}
	for _, r := range page.Runs {
		if r.ID == run.ID {
			all["list"] = face{rowShown(r, &run)}
		}
	}
	if _, listed := all["list"]; !listed {
		all["list"] = face{}
	}
	all["console"] = face{pageShown(s.page("/runs/"+run.ID), run)}
	return all, nil
}

// tagsOf returns the tags with which a list finds the run.
func tagsOf(r *admin.Run) map[string]string {
	if cell := r.Tags[tagCell]; cell != "" {
		return map[string]string{tagCell: cell}
	}
	return nil
}

// infoShown returns the fields of a run that Info of the client contains. The other fields are
// copied from rest.
func infoShown(i *workflow.RunInfo, rest *admin.Run) admin.Run {
	r := *rest
	r.ID, r.WorkflowID, r.Workflow, r.Queue, r.Tags = string(i.ID), i.WorkflowID, i.Workflow, i.Queue, i.Tags
	r.Pin = i.Pin
	r.Parent, r.Root, r.Status, r.CreatedAt, r.EndedAt = string(i.Parent), string(i.Root), string(i.Status), i.CreatedAt, i.EndedAt
	r.Due, r.Events, r.Waits, r.WaitsSince, r.Group = i.Due, i.Events, i.Waits, i.WaitsSince, i.Group
	r.StartBy, r.Blocked, r.Unserved = i.StartBy, i.Blocked, i.Unserved
	return r
}

// rowShown returns the fields of a run that a list contains. The other fields are copied from rest.
func rowShown(row admin.Run, rest *admin.Run) admin.Run {
	r := *rest
	r.ID, r.WorkflowID, r.Workflow, r.Queue, r.Tags = row.ID, row.WorkflowID, row.Workflow, row.Queue, row.Tags
	r.Pin = row.Pin
	r.Parent, r.Root, r.Status, r.CreatedAt, r.EndedAt = row.Parent, row.Root, row.Status, row.CreatedAt, row.EndedAt
	r.Due, r.Events, r.Waits, r.Group = row.Due, row.Events, row.Waits, row.Group
	return r
}

// logShown returns the fields of a run that follow from its log. The other fields are copied from
// rest. The log does not show that a run is blocked or is stopped in debug mode.
func logShown(s *stage, rest *admin.Run, debug bool) admin.Run {
	r := *rest
	l := s.load(event.RunID(r.ID))
	log := eventsOf(l.Frames)
	state := stateOf(l.Frames)
	r.Events = state.Seq
	if r.Status != string(event.StatusBlocked) && !debug {
		r.Status = string(state.Status())
	}
	r.WorkflowID, r.Workflow, r.Queue, r.Tags, r.Parent = state.Spec.WorkflowID, state.Spec.Workflow, state.Spec.Queue, state.Spec.Tags, string(state.Spec.Parent)
	r.Pin = state.Spec.Pin
	r.Input = log[0].Payload
	r.Failure, r.Next = nil, ""
	if last := &log[len(log)-1]; state.Run.Terminal() {
		r.Failure, r.Next = last.Failure, string(last.Next)
	}
	return r
}

var (
	pageID     = regexp.MustCompile(`id="rid">([^<]*)<`)
	pageStatus = regexp.MustCompile(`<p class="under"><span class="st st-([a-z]+)"`)
	pageEvents = regexp.MustCompile(`<dt>Events</dt><dd>([0-9]+)</dd>`)
	pageQueue  = regexp.MustCompile(`<dt>Queue</dt><dd>([^<]*)</dd>`)
	pageAct    = regexp.MustCompile(`/act/([a-z-]+)\?run=`)
)

// pageShown returns the fields of a run that its page in the console shows. The other fields are
// copied from rest. The page has a button for each action except fork, which it shows beside the
// steps.
func pageShown(page string, rest admin.Run) admin.Run {
	one := func(re *regexp.Regexp) string {
		if m := re.FindStringSubmatch(page); m != nil {
			return m[1]
		}
		return "not found: " + re.String()
	}
	r := rest
	r.ID, r.Status, r.Queue = one(pageID), one(pageStatus), one(pageQueue)
	if r.Status == "retrying" && len(r.Retries) > 0 { // the page shows a status that the service does not have
		r.Status = rest.Status
	}
	r.Events, _ = strconv.ParseUint(one(pageEvents), 10, 64)
	shown := map[string]bool{}
	for _, m := range pageAct.FindAllStringSubmatch(page, -1) {
		shown[m[1]] = true
	}
	r.Actions = nil
	for _, verb := range rest.Actions {
		if shown[verb] || verb == "fork" {
			r.Actions = append(r.Actions, verb)
		}
		delete(shown, verb)
	}
	for verb := range shown {
		r.Actions = append(r.Actions, "not an action: "+verb)
	}
	return r
}

var sameFaces = cmp.Options{cmpopts.EquateEmpty(), cmpopts.EquateApproxTime(0)}

// facesAgree fails cells of which two interfaces show different states of the run. It reads again
// if the run has changed between two reads.
func facesAgree(s *stage, cells []*cell) {
	s.T.Helper()
	for _, c := range cells {
		if _, there := observe(s.World, c.run); !there {
			continue
		}
		var all map[string]face
		var err error
		differ := func() bool {
			if all, err = faces(s.Ctx, s, c); err != nil {
				return true
			}
			return slices.ContainsFunc([]string{"http", "info", "list", "log", "console"}, func(name string) bool {
				return !cmp.Equal(all["service"], all[name], sameFaces)
			})
		}
		if s.until(patience([]*cell{c}), func() bool { return !differ() }) {
			continue
		}
		if err != nil {
			c.breaks("faces", "%v", err)
			continue
		}
		for _, name := range []string{"http", "info", "list", "log", "console"} {
			if diff := cmp.Diff(all["service"], all[name], sameFaces); diff != "" {
				c.breaks("faces", "the service and %s differ (-service +%s):\n%s", name, name, diff)
			}
		}
	}
}
