"""A statistic over each row of an array, then a map over the row: softmax and its like."""
