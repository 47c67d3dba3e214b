package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/api"
)

// printed lists the types of JSON outputs that are not part of the API.
var printed = []reflect.Type{reflect.TypeFor[shown](), reflect.TypeFor[outcome](), reflect.TypeFor[contents](), reflect.TypeFor[imported](), reflect.TypeFor[configuration]()}

// schemas returns the JSON Schemas of the JSON outputs by name.
func schemas() map[string]map[string]any {
	var doc struct {
		Components struct {
			Schemas map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(api.OpenAPI(), &doc); err != nil {
		panic(err) // The document is part of this program and is valid.
	}
	all := doc.Components.Schemas
	maps.Copy(all, api.Schemas(printed...))
	b, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	var got map[string]map[string]any
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(b), "#/components/schemas/", "#/$defs/")), &got); err != nil {
		panic(err)
	}
	return got
}

func (c *command) schema() *cobra.Command {
	names := func() []string { return slices.Sorted(maps.Keys(schemas())) }
	return &cobra.Command{
		Use: "schema [TYPE]", Short: "Print the JSON Schema of an output, or the names of all schemas", Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return names(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				_, err := fmt.Fprintln(c.Stdout, strings.Join(names(), "\n"))
				return err
			}
			all := schemas()
			schema := all[args[0]]
			if schema == nil {
				return &admin.InputError{What: fmt.Sprintf("there is no type %q", args[0]), Fix: "use one of " + strings.Join(names(), ", ")}
			}
			all[args[0]] = map[string]any{"$ref": "#"}
			schema["$schema"], schema["$defs"] = "https://json-schema.org/draft/2020-12/schema", all
			return c.print(schema)
		},
	}
}
