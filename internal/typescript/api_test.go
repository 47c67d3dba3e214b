package typescript_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/internal/typescript"
)

// document is an OpenAPI document that contains each kind of schema that the writer supports.
const document = `{
  "paths": {
    "/v1/runs/{id}": {
      "get": {"operationId": "getRun", "summary": "A run */ here.", "parameters": [
        {"name": "id", "in": "path", "schema": {"type": "string"}},
        {"name": "limit", "in": "query", "description": "of a page", "schema": {"type": "integer"}},
        {"name": "status", "in": "query", "schema": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}}
      ]},
      "post": {"operationId": "actOnRun", "summary": "Acts."}
    }
  },
  "components": {"schemas": {
    "Kinds": {"type": "object", "required": ["count", "odd name"], "properties": {
      "any": {"description": "Any JSON."},
      "count": {"type": "integer", "format": "int64"},
      "either": {"anyOf": [{"type": "string"}, {"$ref": "#/components/schemas/Level"}, {"type": "string"}]},
      "inner": {"type": "object", "properties": {"on": {"type": "boolean"}}},
      "levels": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/Level"}},
      "list": {"type": "array", "items": {"$ref": "#/components/schemas/Kinds"}},
      "maybe": {"type": ["string", "null"]},
      "maybes": {"type": "array", "items": {"type": ["number", "null"]}},
      "odd name": {"type": "number"},
      "open": {"type": "object"},
      "pair": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}
    }},
    "Level": {"type": "string", "enum": ["low", "quo\"te"]}
  }}
}`

const want = `// Made from admin/api/openapi.json by go test ./admin/api -update. Do not edit.

export interface Kinds {
  /** Any JSON. */
  any?: unknown;
  count: number;
  either?: string | Level;
  inner?: {
    on?: boolean;
  };
  levels?: Record<string, Level>;
  list?: Kinds[];
  maybe?: string | null;
  maybes?: (number | null)[];
  "odd name": number;
  open?: Record<string, unknown>;
  pair?: [string, string];
}

export type Level = "low" | "quo\"te";

export interface GetRunQuery {
  /** of a page */
  limit?: number;
  status?: ("a" | "b")[];
}

/** Method and path of each operation, with {names} for what is put in. */
export const routes = {
  /** Acts. */
  actOnRun: ["POST", "/v1/runs/{id}"],
  /** A run * / here. */
  getRun: ["GET", "/v1/runs/{id}"],
} as const;
`

func TestOPS3_EachKindOfSchemaHasItsTypeOfTypeScript(t *testing.T) {
	got, err := typescript.API([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOPS3_ADocumentThatIsNoJSONIsAnError(t *testing.T) {
	if got, err := typescript.API([]byte(`{"paths":`)); err == nil {
		t.Errorf("no error, but %q", got)
	}
}
