// Made by flowgen types. Do not edit.

/** What the workflows take and return, and what is sent to them and published by them, by the names that are stored. */
export interface Flows {
  workflows: {
    "clients.order": {
      input: {
        customer: string;
      };
      result: Receipt;
    };
  };
  topics: {
    items: string;
  };
  asks: {
    price: {
      question: number;
      answer: number;
    };
  };
  values: {
    count: number;
  };
  streams: {
    latest: number;
    lines: Line;
  };
}

export interface Line {
  item: string;
  number: number;
}

export interface Receipt {
  customer: string;
  items: string[] | null;
}
