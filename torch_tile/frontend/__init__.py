"""From Dynamo's graph to ATen graphs ready for the importer."""
