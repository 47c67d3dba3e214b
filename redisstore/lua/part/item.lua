-- item_id returns the ID of a packed item.
local function item_id(item)
  local n = string.match(item, '^.(%d+):')
  return string.sub(item, #n + 3, #n + 2 + n)
end
