package admin_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/flowgen/flowgen/admin"
)

// fleetCalls calls each operation on schedules, limits and the catalog, and returns the errors by
// operation.
func (e *estate) fleetCalls(s *admin.Service) map[string]error {
	ctx := e.Context()
	nightly := admin.NewSchedule{Name: "nightly", Timing: admin.Timing{When: "30 2 * * *"}, Workflow: "orders.fulfil", Input: admin.Payload(`{}`)}
	return map[string]error{
		"put":      second(s.PutSchedule(ctx, nightly)),
		"list":     second(s.Schedules(ctx, admin.ScheduleFilter{})),
		"show":     second(s.Schedule(ctx, "nobody")),
		"trigger":  second(s.ActOnSchedule(ctx, "nobody", admin.ScheduleAction{Verb: "trigger"})),
		"delete":   second(s.ActOnSchedule(ctx, "nobody", admin.ScheduleAction{Verb: "delete"})),
		"pools":    second(s.Pools(ctx, admin.PoolFilter{})),
		"pause":    second(s.ActOnPool(ctx, "nobody's", admin.PoolAction{Verb: "pause"})),
		"deploys":  second(s.Deploys(ctx)),
		"drained":  second(s.Drained(ctx, "b")),
		"ramp":     second(s.Ramp(ctx, admin.Ramp{})),
		"retire":   second(s.ActOnDeploy(ctx, "b", admin.DeployAction{Verb: "retire"})),
		"catalog":  second(s.Catalog(ctx, admin.CatalogFilter{})),
		"entities": second(s.Entities(ctx, e.ada, admin.EntityFilter{})),
		"streams":  second(s.Streams(ctx, e.ada, admin.StreamFilter{})),
		"tree":     second(s.Tree(ctx, e.ada)),
		"inbox":    second(s.Inbox(ctx, e.ada)),
		"views":    second(s.Views(ctx)),
		"save":     second(s.SaveView(ctx, "mine", admin.NewView{Filter: "status:failed"})),
		"unsave":   second(s.DeleteView(ctx, "nobody's", admin.Because{})),
		"export":   second(s.Export(ctx, admin.ExportRequest{All: true}, io.Discard)),
	}
}

func TestOPS3_SchedulesAndLimitsNeedTheirRoleAndNoOwner(t *testing.T) {
	lowest := map[string]admin.Role{
		"put": admin.RoleOperator, "list": admin.RoleViewer, "show": admin.RoleViewer, "trigger": admin.RoleOperator, "delete": admin.RoleAdmin,
		"pools": admin.RoleViewer, "pause": admin.RoleOperator, "deploys": admin.RoleViewer, "drained": admin.RoleViewer, "ramp": admin.RoleOperator, "retire": admin.RoleOperator, "catalog": admin.RoleViewer, "entities": admin.RoleViewer, "streams": admin.RoleViewer, "tree": admin.RoleViewer, "inbox": admin.RoleViewer,
		"views": admin.RoleViewer, "save": admin.RoleOperator, "unsave": admin.RoleOperator, "export": admin.RoleAdmin,
	}
	anybody := map[string]bool{"catalog": true, "entities": true, "streams": true, "tree": true, "inbox": true} // operations that principals with an owner may use
	for _, role := range append(admin.Roles(), "", "root") {
		for _, owner := range []string{"", "ada"} {
			e := newEstate(t)
			for what, err := range e.fleetCalls(e.as(role, owner)) {
				may := role.Allows(lowest[what]) && (owner == "" || anybody[what])
				p := admin.ProblemOf(err)
				if forbidden := p != nil && p.Status == http.StatusForbidden; forbidden == may {
					t.Errorf("%q of owner %q may %s: %v: got %v", role, owner, what, may, err)
				}
			}
		}
	}
}

// TestOPS3_TreesAndEntitiesAreThoseOfTheOwner proves that trees and entities do not contain the
// runs of other owners.
func TestOPS3_TreesAndEntitiesAreThoseOfTheOwner(t *testing.T) {
	e := newEstate(t)
	s := e.as(admin.RoleViewer, "ada")
	tree, err := s.Tree(t.Context(), e.ada)
	if err != nil || len(tree.Runs) != 1 || tree.Runs[0].ID != e.ada || tree.Runs[0].Input != nil {
		t.Errorf("got %+v, %v", tree, err)
	}
	operator := e.as(admin.RoleOperator, "ada")
	if _, err := operator.Send(t.Context(), e.ada, "paid", admin.Message{Payload: admin.Payload(`{"card":1}`)}); err != nil {
		t.Fatal(err)
	}
	for role, sees := range map[admin.Role]bool{admin.RoleViewer: false, admin.RolePayloads: true} {
		if in, err := e.as(role, "ada").Inbox(t.Context(), e.ada); err != nil || in.Total != 1 || in.Items[0].Name != "paid" || (in.Items[0].Payload != nil) != sees {
			t.Errorf("a %s gets %+v, %v", role, in, err)
		}
	}
	for what, err := range map[string]error{"tree": second(s.Tree(t.Context(), e.bob)), "entities": second(s.Entities(t.Context(), e.bob, admin.EntityFilter{})), "streams": second(s.Streams(t.Context(), e.bob, admin.StreamFilter{})), "inbox": second(s.Inbox(t.Context(), e.bob))} {
		if p := admin.ProblemOf(err); p == nil || p.Code != admin.CodeNotFound {
			t.Errorf("%s of a run of somebody else: %v", what, err)
		}
	}
}
