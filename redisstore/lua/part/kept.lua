-- kept is added to the time of an id that is remembered until Confirm: no id gets
-- so old by itself.
local kept = 4e15
