package pairs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestComplete_EachStatusAndPlaceHasAScene proves that every status and every queue state of runs
// has a scene. It fails if one is added without a scene.
func TestComplete_EachStatusAndPlaceHasAScene(t *testing.T) {
	statuses, places := map[event.Status]bool{}, map[store.QueueState]bool{}
	for _, sc := range scenes {
		statuses[sc.facts.Status], places[sc.facts.Place] = true, true
	}
	for _, s := range admin.Statuses() {
		if !statuses[event.Status(s)] {
			t.Errorf("no row for status %s: add a scene", s)
		}
	}
	for q := store.QueueState(1); q.String() != store.QueueState(0).String(); q++ {
		if !places[q] {
			t.Errorf("no row for place %s: add a scene", q)
		}
	}
}

// TestComplete_EachVerbIsDecidedInEachState proves that the rules determine a result for every verb
// in every state, without contradiction. It fails if an action is added without a rule.
func TestComplete_EachVerbIsDecidedInEachState(t *testing.T) {
	for _, sc := range scenes {
		for _, cmd := range commands() {
			if sc.noID && strings.HasPrefix(cmd.verb, "start") {
				continue
			}
			if _, _, err := expect(&sc.facts, cmd.verb); err != nil {
				t.Errorf("no row for %s × %s: %v", sc.name, cmd.name, err)
			}
		}
	}
}

// The kinds of methods in the table methods.
const (
	commanding = "command" // the method changes a run, a limit or a schedule, so it needs cells
	reading    = "read"
	neither    = "neither"
)

// methods contains the kind of each method of the types with which programs send commands and read.
var methods = map[string]map[string]string{
	"Handle": {
		"Cancel": commanding, "Fork": commanding, "Pause": commanding, "Release": commanding, "Restart": commanding,
		"Resume": commanding, "Retry": commanding, "RetryCanceled": commanding, "Step": commanding,
		"Info": reading, "Events": reading, "ReadEvents": reading, "Hooks": reading, "ReadStream": reading, "ID": neither,
	},
	"Client": {
		"CallHook": commanding, "FailHook": commanding, "SendToHook": commanding,
		"Count": reading, "Hook": reading, "Infos": reading, "List": reading, "Page": reading,
		"Close": neither, "Run": neither, "RunByID": neither, "Store": neither,
	},
	"Operators": {
		"CancelMany": commanding, "Delete": commanding, "DeleteMany": commanding, "Terminate": commanding,
		"WriteJournal": commanding, "SaveView": commanding, "DeleteView": commanding,
		"Ramp": commanding, "Retire": commanding, "Unretire": commanding, "Deploys": reading, "Drained": reading, "CodecStatus": reading, "Reseal": neither,
		"Catalog": reading, "FailureGroups": reading, "Fleet": reading, "Inbox": reading, "Journal": reading, "LastRecovery": reading, "Rates": reading,
		"Orders": reading, "StreamPage": reading, "Streams": reading, "Tree": reading, "Views": reading,
		"Limits": neither, "Schedules": neither,
	},
	"Schedules": {
		"Backfill": commanding, "Delete": commanding, "Pause": commanding, "Resume": commanding, "Trigger": commanding, "Update": commanding,
		"Get": reading, "List": reading, "Names": reading,
	},
	"Limits":     {"Pause": commanding, "Reset": commanding, "Resume": commanding, "Set": commanding, "List": reading, "Named": neither},
	"NamedLimit": {"Pause": commanding, "Reset": commanding, "Resume": commanding, "Set": commanding},
}

// TestComplete_EachMethodIsACommandOrARead proves that every method of these types has a kind. It
// fails if a method is added to a type without a row.
func TestComplete_EachMethodIsACommandOrARead(t *testing.T) {
	for name, typ := range map[string]reflect.Type{
		"Handle": reflect.TypeFor[*workflow.Handle](), "Client": reflect.TypeFor[*workflow.Client](), "Operators": reflect.TypeFor[*ops.Client](), "Schedules": reflect.TypeFor[*ops.Schedules](),
		"Limits": reflect.TypeFor[ops.Limits](), "NamedLimit": reflect.TypeFor[ops.NamedLimit](),
	} {
		has := map[string]bool{}
		for i := range typ.NumMethod() {
			m := typ.Method(i).Name
			if has[m] = true; methods[name][m] == "" {
				t.Errorf("no row for %s.%s: say whether it is a command, a read or neither", name, m)
			}
		}
		for m := range methods[name] {
			if !has[m] {
				t.Errorf("%s.%s is not there any more: remove its row", name, m)
			}
		}
	}
}

// reserved contains the names of the workflows of the runtime, and prefixes of such names. The
// value is the kind of the runs of the workflow.
var reserved = map[string]kind{
	"flowgen.step/": kindStep, "flowgen.permit": kindPermit, "flowgen.hook": kindToken, "flowgen.schedule": kindSchedule, "flowgen.bulk": kindBulk,
	"flowgen.alert": kindAlert,
}

// reservedName matches the names of workflows that only the runtime may use.
var reservedName = regexp.MustCompile(`^flowgen\.[a-z]+/?$`)

// TestComplete_EachReservedWorkflowHasAKind proves that every workflow of the runtime has a kind of
// runs. It finds the names of the workflows in the constants and declarations of the source.
func TestComplete_EachReservedWorkflowHasAKind(t *testing.T) {
	found := map[string]bool{}
	for _, dir := range []string{"../../event", "../../workflow", "../../../admin"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range workflowNames(f) {
				found[name] = true
				if reserved[name] == "" {
					t.Errorf("no row for %s, in %s: say which kind of runs it has", name, path)
				}
			}
		}
	}
	for name := range reserved {
		if !found[name] {
			t.Errorf("%s is not in the source any more: remove its row", name)
		}
	}
}

// workflowNames returns the reserved names in a file. They are values of constants whose names
// contain Run, or first arguments of NewWorkflow.
func workflowNames(f *ast.File) (names []string) {
	add := func(e ast.Expr) {
		if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if s, err := strconv.Unquote(l.Value); err == nil && reservedName.MatchString(s) && !slices.Contains(names, s) {
				names = append(names, s)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			for i, id := range n.Names {
				if strings.Contains(id.Name, "Run") && i < len(n.Values) {
					add(n.Values[i])
				}
			}
		case *ast.CallExpr:
			if index, ok := n.Fun.(*ast.IndexListExpr); ok && len(n.Args) > 0 {
				if sel, ok := index.X.(*ast.SelectorExpr); ok && sel.Sel.Name == "NewWorkflow" {
					add(n.Args[0])
				}
			}
		}
		return true
	})
	return names
}
