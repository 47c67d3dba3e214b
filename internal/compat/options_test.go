package compat_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/internal/directive"
)

// optionChanges lists, for each option of each directive, the names of the changes of the matrix in
// which it is added, changed or removed, separated by spaces. A change may cover several options.
var optionChanges = map[directive.Kind]map[string]string{
	directive.Step: {
		"after": "graph-dependency-added graph-dependency-removed", "as": "step-as", "backoff": "step-policy", "catch": "machine-catch-added machine-catch-other machine-catch-removed",
		"each": "graph-each-other graph-each-removed", "fatal": "step-policy", "if": "graph-if-added graph-if-other graph-if-removed", "jitter": "step-policy",
		"key": "key-added key-other key-removed", "name": "step-name-option step-renamed-kept", "nonidempotent": "step-nonidempotent", "onfail": "graph-onfail-skip",
		"queue": "queue-added step-queue-other queue-removed", "retries": "step-policy", "timeout": "step-policy", "total": "step-policy",
		"uses": "step-uses-added step-uses-other step-uses-removed", "wire": "param-renamed-wire",
	},
	directive.Workflow: {
		"as": "workflow-go-name", "batch": "workflow-batch-added workflow-batch-changed workflow-batch-removed",
		"children": "workflow-children-added workflow-children-lowered workflow-children-raised workflow-children-removed",
		"debounce": "workflow-debounce-added workflow-debounce-changed workflow-debounce-removed", "name": "workflow-name",
		"schedule": "workflow-schedule-added workflow-schedule-changed workflow-schedule-removed", "wire": "input-renamed-wire",
		"fair": everyWay, "pin": everyWay, "priority": everyWay, "queue": everyWay, "rerun": everyWay, "retention": everyWay, "singleton": everyWay, "startwithin": everyWay, "timeout": everyWay, "uses": everyWay,
	},
	directive.Machine: {
		"as": "workflow-go-name", "max": "machine-max-added machine-max-lowered machine-max-removed", "name": "workflow-name", "start": "machine-start-other machine-start-renamed-kept",
		"debounce": asOfWorkflows, "fair": asOfWorkflows, "pin": asOfWorkflows, "priority": asOfWorkflows, "queue": asOfWorkflows, "rerun": asOfWorkflows, "retention": asOfWorkflows, "schedule": asOfWorkflows,
		"singleton": asOfWorkflows, "startwithin": asOfWorkflows, "timeout": asOfWorkflows, "uses": asOfWorkflows,
	},
	directive.DAG: {
		"as": "workflow-go-name", "name": "workflow-name", "onfail": "graph-onfail-finish", "result": "graph-result-other",
		"debounce": asOfWorkflows, "fair": asOfWorkflows, "pin": asOfWorkflows, "priority": asOfWorkflows, "queue": asOfWorkflows, "rerun": asOfWorkflows, "retention": asOfWorkflows, "schedule": asOfWorkflows,
		"singleton": asOfWorkflows, "startwithin": asOfWorkflows, "timeout": asOfWorkflows, "uses": asOfWorkflows,
	},
	directive.Package: {"client": notStored, "name": "package-name", "register": notStored, "steps": notStored},
	directive.Error:   {"name": "error-name"},
}

const (
	everyWay = "workflow-options-added workflow-options-changed workflow-options-removed"
	// asOfWorkflows lists the changes for options that have the same implementation for all kinds
	// of workflows.
	asOfWorkflows = everyWay + " workflow-debounce-added workflow-schedule-added"
	notStored     = "" // The option affects only generated text.
)

// The test proves that the matrix contains changes for each option of each directive.
func TestVER4_TheMatrixHasEveryOption(t *testing.T) {
	var names []string
	for _, c := range changes(t) {
		names = append(names, c.name)
	}
	for _, kind := range []directive.Kind{directive.Package, directive.Step, directive.Workflow, directive.Machine, directive.DAG, directive.Error} {
		options := kind.Options()
		for _, option := range options {
			row, ok := optionChanges[kind][option]
			if !ok {
				t.Errorf("no row for %s= of //flow:%s: say which changes of the matrix add, change and remove it", option, kind)
			}
			for _, name := range strings.Fields(row) {
				if !slices.Contains(names, name) {
					t.Errorf("%s= of //flow:%s: the matrix has no change %s", option, kind, name)
				}
			}
		}
		for option := range optionChanges[kind] {
			if !slices.Contains(options, option) {
				t.Errorf("//flow:%s has no option %s", kind, option)
			}
		}
	}
}
